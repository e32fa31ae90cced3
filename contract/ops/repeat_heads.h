#pragma once

#include "contract/ops/registry.h"

namespace tandem {

/// One head for all:  y[b, h, t, i] = x[b, 0, t, i]
///
/// Shapes  x: [batch, 1, tokens, size]    y: [batch, heads, tokens, size]
/// Types   any float type
/// Errors  repeat_heads_c1  x is not float of rank 4 with one head
///         repeat_heads_c2  heads is below 1
/// Source  k_rot.expand in DeepseekV3Attention: the rotated part of the key is shared by all heads
extern const OpRow kRepeatHeads;

}  // namespace tandem
