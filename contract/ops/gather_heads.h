#pragma once

#include "contract/ops/registry.h"

namespace tandem {

/// Heads picked by number, each as often as it is named:  y[b, h, t, i] = x[b, order[h], t, i]
///
/// Shapes  x: [batch, heads, tokens, size]    y: [batch, length of order, tokens, size]
/// Types   any float type
/// Errors  gather_heads_c1  x is not float of rank 4 with a fixed number of heads
///         gather_heads_c2  order is empty, or holds a number that is no head of x
/// Source  repeat_kv (transformers, modeling_llama.py) is the order 0, 0, 1, 1; pruned heads (Michel et al.,
///         "Are Sixteen Heads Really Better than One?", 2019) leave numbers out
extern const OpRow kGatherHeads;

}  // namespace tandem
