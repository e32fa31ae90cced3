#include "lower/torch/activation.h"

#include <ATen/ops/gelu.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>

namespace tandem {
namespace {

struct ActivationRow {
  std::string_view name;
  at::Tensor (*run)(const at::Tensor& x);
};

constexpr ActivationRow kRows[] = {
    {"silu", [](const at::Tensor& x) { return at::silu(x); }},
    {"gelu", [](const at::Tensor& x) { return at::gelu(x); }},
    {"gelu_pytorch_tanh", [](const at::Tensor& x) { return at::gelu(x, "tanh"); }},
    {"relu", [](const at::Tensor& x) { return at::relu(x); }},
};

}  // namespace

Result<at::Tensor> activate(std::string_view hidden_act, const at::Tensor& x) {
  for (const ActivationRow& row : kRows)
    if (row.name == hidden_act) return row.run(x);
  return unsupported("lower_torch_c2", "activation '{}' has no PyTorch lowering", hidden_act);
}

std::vector<std::string_view> torch_activations() {
  std::vector<std::string_view> names;
  for (const ActivationRow& row : kRows) names.push_back(row.name);
  return names;
}

}  // namespace tandem
