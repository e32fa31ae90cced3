// Rotary positions: the table of cosines and sines, and the rotation itself.

#include <cmath>

#include "contract/ops/rotary_table.h"
#include "lower/tf/lower_ops.h"

namespace tandem {
namespace {

/// Frequencies of type "dynamic": the base follows the longest position of the call. Each step is rounded to
/// f32 as rotary_frequencies does; the power alone is taken in f64 and rounded.
Tensor dynamic_frequencies(FunctionBuilder& f, const RotaryScaling& scaling, const Tensor& positions) {
  const auto number = [&](double value) { return Tensor{f.scalar(DType::f32, value), {DType::f32, {}}}; };
  const auto power = [&](const Tensor& base, const Tensor& exponent) {
    return f.cast(f.binary("Pow", f.cast(base, DType::f64), f.cast(exponent, DType::f64)), DType::f32);
  };
  const Tensor longest{
      f.node("Max", {positions.ref, f.constant({0, 1})},
             {attr("T", DType::i32), attr("Tidx", DType::i32), attr("keep_dims", false)}, "output"),
      {DType::i32, {}}};
  const Tensor length = f.binary("AddV2", longest, {f.scalar(1), {}});
  const auto original = static_cast<int32_t>(*scaling.original_max_position_embeddings);
  const Tensor counted = f.cast(f.binary("Maximum", length, {f.scalar(original), {}}), DType::f32);
  const Tensor stretched =
      f.binary("RealDiv", f.binary("Mul", number(*scaling.factor), counted), number(original));
  const Tensor ratio = f.binary("Sub", stretched, number(*scaling.factor - 1));
  const double dim = static_cast<double>(scaling.dim);
  const Tensor base =
      f.binary("Mul", number(scaling.theta), power(ratio, number(static_cast<float>(dim / (dim - 2)))));
  std::vector<double> exponents;
  for (int64_t i = 0; i < scaling.dim; i += 2)
    exponents.push_back(static_cast<float>(i) / static_cast<float>(scaling.dim));
  const auto lanes = static_cast<int64_t>(exponents.size());
  const Tensor exponent{f.table(DType::f32, exponents, {lanes}),
                        {DType::f32, {Dim(static_cast<uint64_t>(lanes))}}};
  Tensor powers = power(base, exponent);
  powers.type = exponent.type;
  Tensor frequencies = f.binary("RealDiv", number(1), powers);
  frequencies.type = exponent.type;
  return frequencies;
}

/// Half of a table's lanes, with an axis for the heads: [batch, 1, tokens, dim / 2].
Tensor half_table(FunctionBuilder& f, const Tensor& table) {
  return f.expand_dims(f.slice_last(table, 0, static_cast<int32_t>(table.type.shape.back().size / 2)), 1);
}

}  // namespace

std::vector<Tensor> lower_rotary_table(FunctionBuilder& f, const Node& node,
                                       std::span<const TfOperand> inputs, LowerContext&) {
  const RotaryScaling scaling = rotary_scaling(node).value();  // the contract was checked
  const Tensor positions = f.use(inputs[0]);
  const auto half = static_cast<uint64_t>(scaling.dim / 2);
  RotaryFrequencies made;
  Tensor frequencies;
  if (scaling.type == "dynamic") {
    frequencies = dynamic_frequencies(f, scaling, positions);
  } else {
    made = rotary_frequencies(scaling).value();
    const std::vector<double> values(made.inverse_frequencies.begin(), made.inverse_frequencies.end());
    frequencies = {f.table(DType::f32, values, {static_cast<int64_t>(half)}), {DType::f32, {Dim(half)}}};
  }
  Tensor angles = f.binary("Mul", f.expand_dims(f.cast(positions, DType::f32), -1), frequencies);
  angles.type.shape.back() = Dim(half);
  const DType dtype = dtype_named(string_attribute(node, "dtype")).value();
  std::vector<Tensor> tables;
  for (const char* function : {"Cos", "Sin"}) {
    Tensor table = f.unary(function, angles);
    if (made.attention_factor != 1)
      table = f.binary("Mul", table, {f.scalar(DType::f32, made.attention_factor), {}});
    table = f.cast(table, dtype);
    tables.push_back(f.concat_last(table, table));
  }
  return tables;
}

std::vector<Tensor> lower_rotary(FunctionBuilder& f, const Node& node, std::span<const TfOperand> inputs,
                                 LowerContext&) {
  const Tensor x = f.use(inputs[0]);
  const Tensor cos = half_table(f, f.use(inputs[1])), sin = half_table(f, f.use(inputs[2]));
  const auto dim = static_cast<int32_t>(x.type.shape.back().size);
  const bool interleaved = bool_attribute(node, "interleaved");
  const Tensor first = interleaved ? f.slice_last(x, 0, dim, 2) : f.slice_last(x, 0, dim / 2);
  const Tensor second = interleaved ? f.slice_last(x, 1, dim, 2) : f.slice_last(x, dim / 2, dim);
  const Tensor low = f.binary("Sub", f.binary("Mul", first, cos), f.binary("Mul", second, sin));
  const Tensor high = f.binary("AddV2", f.binary("Mul", second, cos), f.binary("Mul", first, sin));
  return {f.concat_last(low, high)};
}

}  // namespace tandem
