#include "contract/ops/activation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace tandem {
namespace {

template <class Number>
Number silu(Number x) {
  return x / (Number(1) + std::exp(-x));
}

template <class Number>
Number gelu(Number x) {
  constexpr Number kInverseRoot = static_cast<Number>(1 / std::numbers::sqrt2);
  return x * Number(0.5) * (Number(1) + std::erf(x * kInverseRoot));
}

template <class Number>
Number gelu_tanh(Number x) {
  constexpr Number kScale = static_cast<Number>(std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
  const Number inner = kScale * (x + Number(0.044715) * (x * x * x));
  return x * Number(0.5) * (Number(1) + std::tanh(inner));
}

template <class Number>
Number relu(Number x) {
  return x < Number(0) ? Number(0) : x;  // NaN stays
}

}  // namespace

std::span<const Activation> activations() {
  static const auto rows = std::to_array<Activation>({
      {"silu", {"swish"}, "x / (1 + exp(-x))", silu<double>, silu<float>},
      {"gelu", {"gelu_python"}, "x / 2 * (1 + erf(x / sqrt(2)))", gelu<double>, gelu<float>},
      {"gelu_pytorch_tanh",
       {"gelu_python_tanh", "gelu_new", "gelu_accurate"},
       "x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))",
       gelu_tanh<double>,
       gelu_tanh<float>},
      {"relu", {}, "max(x, 0)", relu<double>, relu<float>},
  });
  return rows;
}

const Activation* find_activation(std::string_view name) {
  const auto found = std::ranges::find(activations(), name, &Activation::name);
  return found == activations().end() ? nullptr : &*found;
}

const Activation* published_activation(std::string_view hidden_act) {
  for (const Activation& activation : activations())
    if (activation.name == hidden_act || std::ranges::count(activation.aliases, hidden_act) > 0)
      return &activation;
  return nullptr;
}

std::string published_activations() {
  std::vector<std::string> names;
  for (const Activation& activation : activations()) {
    names.push_back(fmt::format("\"{}\"", activation.name));
    for (const std::string_view alias : activation.aliases) names.push_back(fmt::format("\"{}\"", alias));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

Status check_activation(const Node& node, std::string_view label) {
  const std::string& name = string_attribute(node, "hidden_act");
  if (find_activation(name)) return {};
  std::vector<std::string> known;
  for (const Activation& activation : activations()) known.push_back(fmt::format("\"{}\"", activation.name));
  return unsupported(std::string(label), "hidden_act is \"{}\", expected one of {}", name,
                     fmt::join(known, ", "));
}

}  // namespace tandem
