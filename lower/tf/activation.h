#pragma once
// The activations of contract/ops/activation.h in TensorFlow, one row each.

#include "lower/tf/function_builder.h"

namespace tandem {

/// act(x), of x's type. A gelu of bf16 or f16 is computed in f32 and rounded once, as PyTorch does.
/// hidden_act must have a row: lower_to_tensorflow has looked.
Tensor activate(FunctionBuilder& f, std::string_view hidden_act, const Tensor& x);

std::vector<std::string_view> tensorflow_activations();

/// act(gate) * up. A silu is written in another order than elsewhere, so that the optimiser sees no swish to
/// fuse: oneDNN's costs more than the two ops on few rows.
Tensor gate_few_rows(FunctionBuilder& f, const std::string& hidden_act, const Tensor& gate, const Tensor& up);

}  // namespace tandem
