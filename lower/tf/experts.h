#pragma once
// The two ways to compute the chosen experts: grouped by expert (prompts), and token by token (decode).

#include "lower/tf/lower_ops.h"

namespace tandem {

/// act(gate) * up. A silu is written in another order than elsewhere, so that the optimiser sees no swish to
/// fuse: oneDNN's costs more than the two ops on few rows.
Tensor gate_few_rows(FunctionBuilder& f, const std::string& hidden_act, const Tensor& gate, const Tensor& up);

/// The op `experts` for one token a row: of each kernel the chosen experts' slices are read where they lie,
/// and nothing else.
Tensor experts_by_token(FunctionBuilder& f, const Node& node, std::span<const TfOperand> inputs,
                        LowerContext& context);

}  // namespace tandem
