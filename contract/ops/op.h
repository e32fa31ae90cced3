#pragma once
// What the sources of several ops share: tests of types, and the product of a row with a kernel.

#include <cmath>

#include "contract/ops/registry.h"

namespace tandem {

/// True for a float type of that rank.
inline bool is_float_of_rank(const TensorType& type, size_t rank) {
  return is_float(type.dtype) && type.rank() == rank;
}

/// How many rows the last axis is repeated for.
template <class Number>
size_t rows(const Value<Number>& x) {
  size_t count = 1;
  for (size_t axis = 0; axis + 1 < x.shape.size(); ++axis) count *= x.shape[axis];
  return count;
}

/// The values of an op's outputs: `return outputs(std::move(y));`.
template <class Number, class... More>
std::vector<Value<Number>> outputs(Value<Number> first, More... more) {
  std::vector<Value<Number>> all;
  all.push_back(std::move(first));
  (all.push_back(std::move(more)), ...);
  return all;
}

/// The attribute layout of ops with kernels: "in_out" or "out_in". Errors: `label` for another word.
inline Result<bool> is_out_in(const Node& node, std::string_view label) {
  const std::string& layout = string_attribute(node, "layout");
  if (layout != "in_out" && layout != "out_in")
    return invalid(std::string(label), "layout is \"{}\", expected \"in_out\" or \"out_in\"", layout);
  return layout == "out_in";
}

/// The type of a kernel that leads from `in` to `out`.
inline TensorType kernel_type(DType dtype, Dim in, Dim out, bool out_in) {
  return out_in ? TensorType{dtype, {out, in}} : TensorType{dtype, {in, out}};
}

/// y[out] = sum over in of x[in] * kernel[in, out] (or kernel[out, in]), accumulated in double.
template <class Number>
std::vector<double> row_times_kernel(std::span<const Number> x, std::span<const Number> kernel, size_t out,
                                     bool out_in) {
  std::vector<double> y(out, 0.0);
  if (!out_in) {
    for (size_t i = 0; i < x.size(); ++i) {
      const double factor = x[i];
      const Number* row = kernel.data() + i * out;
      for (size_t o = 0; o < out; ++o) y[o] += factor * row[o];
    }
    return y;
  }
  for (size_t o = 0; o < out; ++o) {
    const Number* row = kernel.data() + o * x.size();
    double sums[4] = {};  // four chains of additions, so that they overlap
    size_t i = 0;
    for (; i + 4 <= x.size(); i += 4)
      for (size_t lane = 0; lane < 4; ++lane) sums[lane] += static_cast<double>(x[i + lane]) * row[i + lane];
    for (; i < x.size(); ++i) sums[0] += static_cast<double>(x[i]) * row[i];
    y[o] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
  return y;
}

template <class Number>
Number sigmoid(Number x) {
  return Number(1) / (Number(1) + std::exp(-x));
}

/// A number rounded to a type; in f64 evaluation nothing is rounded.
inline double round_to(DType, double number) { return number; }
inline float round_to(DType dtype, float number) {
  switch (dtype) {
    case DType::bf16:
      return bf16_to_f32(f32_to_bf16(number));
    case DType::f16:
      return f16_to_f32(f32_to_f16(number));
    case DType::f8_e4m3:
      return f8_e4m3_to_f32(f32_to_f8_e4m3(number));
    case DType::f8_e5m2:
      return f8_e5m2_to_f32(f32_to_f8_e5m2(number));
    default:
      return number;
  }
}

/// The same in f64 evaluation too: for a model that rounds by definition.
inline double always_round_to(DType dtype, double number) {
  return round_to(dtype, static_cast<float>(number));
}
inline float always_round_to(DType dtype, float number) { return round_to(dtype, number); }

}  // namespace tandem
