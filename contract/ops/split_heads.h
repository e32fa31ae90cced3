#pragma once

#include "contract/ops/registry.h"

namespace tandem {

/// The last axis cut into heads, and the head axis moved before the tokens:
///
///   y[b, h, t, i] = x[b, t, h * size + i]
///
/// Shapes  x: [batch, tokens, heads * size]    y: [batch, heads, tokens, size]
/// Types   any float type
/// Errors  split_heads_c1  x is not float, or not of rank 3 with a last axis of a fixed size
///         split_heads_c2  heads is below 1, or the last axis is not a multiple of it
/// Source  .view(batch, tokens, -1, head_dim).transpose(1, 2) in LlamaAttention
extern const OpRow kSplitHeads;

}  // namespace tandem
