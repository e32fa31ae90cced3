#include "arch/blocks/rotary.h"

#include <algorithm>
#include <cmath>

namespace tandem {
namespace {

enum class Need { required, optional };
struct FieldRow {
  std::string_view type;
  std::string_view field;
  Need need;
};

/// What each scaling type reads. A field that its type does not list is reported as unread.
constexpr FieldRow kFields[] = {
    {"linear", "factor", Need::required},
    {"dynamic", "factor", Need::required},
    {"yarn", "factor", Need::required},
    {"yarn", "beta_fast", Need::optional},
    {"yarn", "beta_slow", Need::optional},
    {"yarn", "mscale", Need::optional},
    {"yarn", "mscale_all_dim", Need::optional},
    {"yarn", "attention_factor", Need::optional},
    {"llama3", "factor", Need::required},
    {"llama3", "low_freq_factor", Need::required},
    {"llama3", "high_freq_factor", Need::required},
};
constexpr std::string_view kTypes[] = {"default", "linear", "dynamic", "yarn", "llama3"};

/// YaRN's magnitude correction, m(s, k) = 0.1 k ln(s) + 1.
double magnitude(double factor, double k) { return factor <= 1 ? 1 : 0.1 * k * std::log(factor) + 1; }

void read_scaling(ConfigReader& config, ConfigReader& scaling, RotaryConfig& rotary,
                  uint64_t max_position_embeddings) {
  rotary.type = scaling.text_or("rope_type", scaling.text_or("type", "default"));
  scaling.mark_read("type");
  if (std::find(std::begin(kTypes), std::end(kTypes), rotary.type) == std::end(kTypes)) {
    scaling.problem("rope_type",
                    fmt::format("is \"{}\", expected one of {}", rotary.type, fmt::join(kTypes, ", ")));
    return;
  }
  if (scaling.has("rope_theta")) {
    const double outer = std::get<double>(rotary.attributes["theta"]), theta = scaling.number("rope_theta");
    if (config.has("rope_theta") && theta != outer)
      scaling.problem("rope_theta", fmt::format("is {}, but rope_theta is {}", theta, outer));
    rotary.attributes["theta"] = theta;
  }
  for (const FieldRow& row : kFields) {
    if (row.type != rotary.type) continue;
    if (row.need == Need::optional && !scaling.has(row.field)) continue;
    const double number = scaling.number(row.field);
    const bool may_be_zero = row.field.starts_with("mscale");
    if (!(number > 0 || (may_be_zero && number == 0)))
      scaling.problem(row.field,
                      fmt::format("is {}, expected a number {} 0", number, may_be_zero ? "from" : "above"));
    rotary.attributes[std::string(row.field)] = number;
  }
  if (rotary.type == "llama3" && scaling.has("low_freq_factor") && scaling.has("high_freq_factor")) {
    const auto factor = [&](const char* field) { return std::get<double>(rotary.attributes[field]); };
    const double low = factor("low_freq_factor"), high = factor("high_freq_factor");
    if (!(high > low))
      scaling.problem("high_freq_factor",
                      fmt::format("is {}, expected more than low_freq_factor = {}", high, low));
  }
  if (rotary.type == "yarn" && scaling.has("truncate"))
    rotary.attributes["truncate"] = scaling.boolean_or("truncate", true);
  uint64_t original = max_position_embeddings;
  if (rotary.type == "yarn" || rotary.type == "llama3") {
    original = scaling.size_or("original_max_position_embeddings", original, 1, kMaxPositions);
    original = config.size_or("original_max_position_embeddings", original, 1, kMaxPositions);
  }
  if (rotary.type != "default" && rotary.type != "linear") {
    rotary.attributes["original_max_position_embeddings"] = static_cast<int64_t>(original);
    rotary.boundaries.push_back(original);
  }
  if (rotary.type == "yarn" && rotary.attributes.count("mscale_all_dim")) {
    const double all_dim = std::get<double>(rotary.attributes["mscale_all_dim"]);
    const double m = all_dim == 0 ? 1 : magnitude(std::get<double>(rotary.attributes["factor"]), all_dim);
    rotary.latent_score_multiplier = m * m;
  }
}

}  // namespace

RotaryConfig read_rotary(ConfigReader& config, uint64_t max_position_embeddings) {
  RotaryConfig rotary;
  rotary.attributes["theta"] =
      config.number_or("rope_theta", 10000.0);  // the family's own default where no key gives it
  const Json* parameters = config.object_or_null("rope_parameters");
  const Json* scaling = config.object_or_null("rope_scaling");
  if (parameters && scaling && *parameters != *scaling)
    config.problem("rope_scaling", "and rope_parameters are both there and differ");
  if (parameters || scaling) {
    ConfigReader& reader =
        config.nested(parameters ? *parameters : *scaling, parameters ? "rope_parameters." : "rope_scaling.");
    read_scaling(config, reader, rotary, max_position_embeddings);
  }
  rotary.attributes["type"] = rotary.type;
  const double theta = std::get<double>(rotary.attributes["theta"]);
  if (!(theta > 1)) config.problem("rope_theta", fmt::format("is {}, expected a number above 1", theta));
  if (rotary.boundaries.empty() || rotary.boundaries.back() != max_position_embeddings)
    rotary.boundaries.push_back(max_position_embeddings);
  std::sort(rotary.boundaries.begin(), rotary.boundaries.end());
  return rotary;
}

void expect_rotary_dim(ConfigReader& config, std::string_view key, uint64_t dim, const RotaryConfig& rotary) {
  if (dim % 2 != 0 || dim == 0)
    config.problem(key, fmt::format("is {}, expected an even number", dim));
  else if (dim == 2 && rotary.type == "dynamic")
    config.problem(key, "is 2, expected at least 4 with dynamic scaling");
}

}  // namespace tandem
