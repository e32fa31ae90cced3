#pragma once
// The activations of contract/ops/activation.h in PyTorch, one row each.

#include <ATen/core/Tensor.h>

#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem {

/// act(x), of x's type; bf16 and f16 are computed in f32 and rounded once.
/// Errors: lower_torch_c2 no row for the name.
Result<at::Tensor> activate(std::string_view hidden_act, const at::Tensor& x);

std::vector<std::string_view> torch_activations();

}  // namespace tandem
