#include "contract/ops/rotary_table.h"

#include <algorithm>
#include <numbers>

#include "contract/ops/op.h"

namespace tandem {
namespace {

/// Which fields of the scaling each type reads.
struct TypeRow {
  std::string_view type;
  std::vector<std::string_view> needs;
  std::vector<std::string_view> may_have;
};
const std::vector<TypeRow>& type_rows() {
  static const std::vector<TypeRow> rows{
      {"default", {}, {}},
      {"linear", {"factor"}, {}},
      {"dynamic", {"factor", "original_max_position_embeddings"}, {}},
      {"yarn",
       {"factor", "original_max_position_embeddings"},
       {"attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"}},
      {"llama3", {"factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"}, {}},
  };
  return rows;
}

/// Every optional field: its name, and its value as a number (1 for a bool) if it is there.
std::vector<std::pair<std::string_view, std::optional<double>>> fields(const RotaryScaling& scaling) {
  const auto number = [](const auto& field) {
    return field ? std::optional(static_cast<double>(*field)) : std::nullopt;
  };
  return {{"factor", scaling.factor},
          {"original_max_position_embeddings", number(scaling.original_max_position_embeddings)},
          {"attention_factor", scaling.attention_factor},
          {"beta_fast", scaling.beta_fast},
          {"beta_slow", scaling.beta_slow},
          {"mscale", scaling.mscale},
          {"mscale_all_dim", scaling.mscale_all_dim},
          {"truncate", scaling.truncate ? std::optional(1.0) : std::nullopt},
          {"low_freq_factor", scaling.low_freq_factor},
          {"high_freq_factor", scaling.high_freq_factor}};
}

bool has(const std::vector<std::string_view>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

Status check_fields(const RotaryScaling& scaling, const TypeRow& row) {
  for (const auto& [name, value] : fields(scaling)) {
    const bool needed = has(row.needs, name);
    if (needed && !value) return invalid("rotary_table_c5", "type {} needs {}", row.type, name);
    if (value && !needed && !has(row.may_have, name))
      return invalid("rotary_table_c6", "type {} does not read {}", row.type, name);
    const bool may_be_zero = name.starts_with("mscale");
    if (value && !(std::isfinite(*value) && (*value > 0 || (may_be_zero && *value == 0))))
      return invalid("rotary_table_c7", "{} is {}, expected a number above 0", name, *value);
  }
  if (row.type == "llama3" && *scaling.high_freq_factor <= *scaling.low_freq_factor)
    return invalid("rotary_table_c7", "high_freq_factor is {}, expected more than low_freq_factor = {}",
                   *scaling.high_freq_factor, *scaling.low_freq_factor);
  return {};
}

float power(float base, float exponent) {
  return static_cast<float>(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
}

/// base ^ (2 i / dim), the wavelengths over 2 pi.
std::vector<float> periods(float base, int64_t dim) {
  std::vector<float> all;
  for (int64_t lane = 0; lane < dim; lane += 2)
    all.push_back(power(base, static_cast<float>(lane) / static_cast<float>(dim)));
  return all;
}

float dynamic_base(const RotaryScaling& scaling, uint64_t length) {
  const float theta = static_cast<float>(scaling.theta);
  if (length <= static_cast<uint64_t>(*scaling.original_max_position_embeddings)) return theta;
  const float ratio = static_cast<float>(*scaling.factor) * static_cast<float>(length) /
                          static_cast<float>(*scaling.original_max_position_embeddings) -
                      static_cast<float>(*scaling.factor - 1);
  const double dim = static_cast<double>(scaling.dim);
  return theta * power(ratio, static_cast<float>(dim / (dim - 2)));
}

/// Lanes below the first bound keep their frequency, those above the second are stretched, between them it is
/// a ramp.
std::pair<double, double> yarn_bounds(const RotaryScaling& scaling) {
  const double dim = static_cast<double>(scaling.dim);
  const auto lane_that_turns = [&](double times) {
    const double length = static_cast<double>(*scaling.original_max_position_embeddings);
    return dim * std::log(length / (times * 2 * std::numbers::pi)) / (2 * std::log(scaling.theta));
  };
  double low = lane_that_turns(scaling.beta_fast.value_or(32));
  double high = lane_that_turns(scaling.beta_slow.value_or(1));
  if (scaling.truncate.value_or(true)) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  return {std::max(low, 0.0), std::min(high, dim - 1)};
}

std::vector<float> yarn(const RotaryScaling& scaling) {
  const auto [low, bound] = yarn_bounds(scaling);
  const double high = low == bound ? bound + 0.001 : bound;
  std::vector<float> frequencies;
  for (float period : periods(static_cast<float>(scaling.theta), scaling.dim)) {
    const float lane = static_cast<float>(frequencies.size());
    const float ramp =
        std::clamp((lane - static_cast<float>(low)) / static_cast<float>(high - low), 0.0f, 1.0f);
    const float kept = 1 - ramp;
    const float stretched_frequency = 1 / (static_cast<float>(*scaling.factor) * period);
    frequencies.push_back(stretched_frequency * (1 - kept) + 1 / period * kept);
  }
  return frequencies;
}

double yarn_attention_factor(const RotaryScaling& scaling) {
  if (scaling.attention_factor) return *scaling.attention_factor;
  if (scaling.mscale.value_or(0) > 0 && scaling.mscale_all_dim.value_or(0) > 0)
    return yarn_mscale(*scaling.factor, *scaling.mscale) /
           yarn_mscale(*scaling.factor, *scaling.mscale_all_dim);
  return yarn_mscale(*scaling.factor);
}

float llama3(const RotaryScaling& scaling, float frequency) {
  const double length = static_cast<double>(*scaling.original_max_position_embeddings);
  const float factor = static_cast<float>(*scaling.factor);
  const double low = *scaling.low_freq_factor, high = *scaling.high_freq_factor;
  // PyTorch divides a number by a tensor as number * (1 / tensor).
  const float wavelength = 1 / frequency * static_cast<float>(2 * std::numbers::pi);
  if (wavelength > static_cast<float>(length / low)) return frequency / factor;
  if (wavelength < static_cast<float>(length / high)) return frequency;
  const float turns = 1 / wavelength * static_cast<float>(length);
  const float smooth = (turns - static_cast<float>(low)) / static_cast<float>(high - low);
  return (1 - smooth) * frequency / factor + smooth * frequency;
}

Result<std::vector<TensorType>> infer(const Node& node, std::span<const TensorType> inputs) {
  const TensorType& positions = inputs[0];
  if (positions.dtype != DType::i32 || positions.rank() != 2)
    return invalid("rotary_table_c1", "position_ids is {}, expected i32[batch, tokens]", positions);
  TANDEM_TRY(const RotaryScaling scaling, rotary_scaling(node));
  const auto dtype = dtype_named(string_attribute(node, "dtype"));
  if (!dtype || !is_float(*dtype))
    return invalid("rotary_table_c8", "dtype is \"{}\", expected a float type",
                   string_attribute(node, "dtype"));
  const TensorType table{*dtype,
                         {positions.shape[0], positions.shape[1], static_cast<uint64_t>(scaling.dim)}};
  return std::vector{table, table};
}

template <class Number>
Outputs<Number> evaluate(const Node& node, std::span<const Value<Number>> inputs) {
  const Value<Number>& positions = inputs[0];
  const DType dtype = *dtype_named(string_attribute(node, "dtype"));
  const Number longest =
      positions.data.empty() ? 0 : *std::max_element(positions.data.begin(), positions.data.end());
  TANDEM_TRY(const RotaryScaling scaling, rotary_scaling(node));
  TANDEM_TRY(const RotaryFrequencies table,
             rotary_frequencies(scaling, longest >= 0 ? static_cast<uint64_t>(longest) + 1 : 0));
  const Number attention_factor = static_cast<Number>(table.attention_factor);
  const size_t half = table.inverse_frequencies.size();
  Value<Number> cos{{positions.shape[0], positions.shape[1], 2 * half}, {}};
  Value<Number> sin{cos.shape, {}};
  for (const Number position : positions.data)
    for (size_t i = 0; i < 2 * half; ++i) {
      const double angle = static_cast<float>(position) * table.inverse_frequencies[i % half];
      cos.data.push_back(round_to(dtype, static_cast<Number>(std::cos(angle)) * attention_factor));
      sin.data.push_back(round_to(dtype, static_cast<Number>(std::sin(angle)) * attention_factor));
    }
  return outputs(std::move(cos), std::move(sin));
}

}  // namespace

const OpRow kRotaryTable{"rotary_table",
                         1,
                         1,
                         {{"dim", AttributeKind::integer},
                          {"theta", AttributeKind::number},
                          {"type", AttributeKind::text},
                          {"dtype", AttributeKind::text},
                          {"factor", AttributeKind::number, false},
                          {"original_max_position_embeddings", AttributeKind::integer, false},
                          {"attention_factor", AttributeKind::number, false},
                          {"beta_fast", AttributeKind::number, false},
                          {"beta_slow", AttributeKind::number, false},
                          {"mscale", AttributeKind::number, false},
                          {"mscale_all_dim", AttributeKind::number, false},
                          {"truncate", AttributeKind::boolean, false},
                          {"low_freq_factor", AttributeKind::number, false},
                          {"high_freq_factor", AttributeKind::number, false}},
                         infer,
                         evaluate<double>,
                         evaluate<float>};

double yarn_mscale(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

Result<RotaryScaling> rotary_scaling(const Node& node) {
  const auto number = [&](std::string_view name) {
    return find_attribute(node, name) ? std::optional(float_attribute(node, name)) : std::nullopt;
  };
  RotaryScaling scaling;
  scaling.dim = int_attribute(node, "dim");
  scaling.theta = float_attribute(node, "theta");
  scaling.type = string_attribute(node, "type");
  scaling.factor = number("factor");
  if (find_attribute(node, "original_max_position_embeddings"))
    scaling.original_max_position_embeddings = int_attribute(node, "original_max_position_embeddings");
  scaling.attention_factor = number("attention_factor");
  scaling.beta_fast = number("beta_fast");
  scaling.beta_slow = number("beta_slow");
  scaling.mscale = number("mscale");
  scaling.mscale_all_dim = number("mscale_all_dim");
  if (find_attribute(node, "truncate")) scaling.truncate = bool_attribute(node, "truncate");
  scaling.low_freq_factor = number("low_freq_factor");
  scaling.high_freq_factor = number("high_freq_factor");
  TANDEM_CHECK(check(scaling));
  return scaling;
}

Status check(const RotaryScaling& scaling) {
  const int64_t smallest = scaling.type == "dynamic" ? 4 : 2;
  if (scaling.dim < smallest || scaling.dim % 2 != 0)
    return invalid("rotary_table_c2", "dim is {}, expected an even number of at least {}", scaling.dim,
                   smallest);
  if (!std::isfinite(scaling.theta) || scaling.theta <= 1)
    return invalid("rotary_table_c3", "theta is {}, expected a number above 1", scaling.theta);
  const auto row = std::ranges::find(type_rows(), scaling.type, &TypeRow::type);
  if (row == type_rows().end())
    return unsupported("rotary_table_c4", "type \"{}\" is none of default, linear, dynamic, yarn, llama3",
                       scaling.type);
  return check_fields(scaling, *row);
}

Result<RotaryFrequencies> rotary_frequencies(const RotaryScaling& scaling, uint64_t length) {
  TANDEM_CHECK(check(scaling));
  if (scaling.type == "yarn") return RotaryFrequencies{yarn(scaling), yarn_attention_factor(scaling)};
  const float base =
      scaling.type == "dynamic" ? dynamic_base(scaling, length) : static_cast<float>(scaling.theta);
  RotaryFrequencies table{periods(base, scaling.dim), 1};
  for (float& number : table.inverse_frequencies) {
    number = 1 / number;
    if (scaling.type == "linear") number /= static_cast<float>(*scaling.factor);
    if (scaling.type == "llama3") number = llama3(scaling, number);
  }
  return table;
}

}  // namespace tandem
