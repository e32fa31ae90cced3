#pragma once
// The two ways to compute the chosen experts: grouped by expert (prompts), and token by token (decode).

#include "lower/tf/lower_ops.h"

namespace tandem {

/// The op `experts` for a fixed number of tokens a row: of each kernel the chosen experts' slices are read
/// where they lie, and nothing else.
Tensor experts_by_token(FunctionBuilder& f, const Node& node, std::span<const TfOperand> inputs,
                        LowerContext& context);

}  // namespace tandem
