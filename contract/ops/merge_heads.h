#pragma once

#include "contract/ops/registry.h"

namespace tandem {

/// The inverse of split_heads:  y[b, t, h * size + i] = x[b, h, t, i]
///
/// Shapes  x: [batch, heads, tokens, size]    y: [batch, tokens, heads * size]
/// Types   any float type
/// Errors  merge_heads_c1  x is not float of rank 4
///         merge_heads_c2  heads or size is not fixed, or their product has no 64 bits
/// Source  .transpose(1, 2).reshape(batch, tokens, -1) in LlamaAttention
extern const OpRow kMergeHeads;

}  // namespace tandem
