#include "lower/tf/activation.h"

#include <algorithm>
#include <cassert>
#include <numbers>

namespace tandem {
namespace {

Tensor number(FunctionBuilder& f, const Tensor& like, double value) {
  return {f.scalar(like.type.dtype, value), {like.type.dtype, {}}};
}

/// x in f32 where its own type is narrower.
Tensor widened(FunctionBuilder& f, const Tensor& x) {
  return size_of(x.type.dtype) < size_of(DType::f32) ? f.cast(x, DType::f32) : x;
}

/// x / 2 * (1 + part)
Tensor half_of_one_plus(FunctionBuilder& f, const Tensor& x, const Tensor& part) {
  return f.binary("Mul", f.binary("Mul", x, number(f, x, 0.5)), f.binary("AddV2", part, number(f, x, 1)));
}

Tensor silu(FunctionBuilder& f, const Tensor& x) { return f.binary("Mul", x, f.unary("Sigmoid", x)); }

Tensor gelu(FunctionBuilder& f, const Tensor& x) {
  const Tensor wide = widened(f, x);
  const Tensor scaled = f.binary("Mul", wide, number(f, wide, 1 / std::numbers::sqrt2));
  return f.cast(half_of_one_plus(f, wide, f.unary("Erf", scaled)), x.type.dtype);
}

Tensor gelu_tanh(FunctionBuilder& f, const Tensor& x) {
  const Tensor wide = widened(f, x);
  const Tensor cube = f.binary("Mul", f.unary("Square", wide), wide);
  const Tensor sum = f.binary("AddV2", wide, f.binary("Mul", cube, number(f, wide, 0.044715)));
  const Tensor inner = f.binary("Mul", sum, number(f, wide, std::numbers::sqrt2 * std::numbers::inv_sqrtpi));
  return f.cast(half_of_one_plus(f, wide, f.unary("Tanh", inner)), x.type.dtype);
}

Tensor relu(FunctionBuilder& f, const Tensor& x) {
  return {f.node("Relu", {x.ref}, {attr("T", x.type.dtype)}, "activations"), x.type};
}

struct ActivationRow {
  std::string_view name;
  Tensor (*lower)(FunctionBuilder& f, const Tensor& x);
};

constexpr ActivationRow kRows[] = {
    {"silu", silu},
    {"gelu", gelu},
    {"gelu_pytorch_tanh", gelu_tanh},
    {"relu", relu},
};

}  // namespace

Tensor activate(FunctionBuilder& f, std::string_view hidden_act, const Tensor& x) {
  const auto row = std::ranges::find(kRows, hidden_act, &ActivationRow::name);
  assert(row != std::end(kRows));
  return row->lower(f, x);
}

Tensor gate_few_rows(FunctionBuilder& f, const std::string& hidden_act, const Tensor& gate,
                     const Tensor& up) {
  if (hidden_act == "silu") return f.binary("Mul", f.binary("Mul", up, f.unary("Sigmoid", gate)), gate);
  return f.binary("Mul", activate(f, hidden_act, gate), up);
}

std::vector<std::string_view> tensorflow_activations() {
  std::vector<std::string_view> names;
  for (const ActivationRow& row : kRows) names.push_back(row.name);
  return names;
}

}  // namespace tandem
