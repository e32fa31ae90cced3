#pragma once

#include "contract/ops/registry.h"

namespace tandem {

/// Rotary position embedding: pairs of lanes turned by the angles of a rotary_table.
///
///   half = dim / 2,  (a, b) = (x[..., :half], x[..., half:])        interleaved = false
///                    (a, b) = (x[..., 0::2], x[..., 1::2])          interleaved = true
///   y[..., :half] = a * cos - b * sin
///   y[..., half:] = b * cos + a * sin
///
/// Interleaved lanes come out as evens, then odds, and stay so: queries and keys are permuted alike, so
/// scores are not changed by it.
///
/// Shapes  x, y: [batch, heads, tokens, dim]    cos, sin: [batch, tokens, dim], of which the first half is
/// read Types   one float type for all; both products and their sum are rounded to it Errors  rotary_c1  x is
/// not float of rank 4 with an even last axis of a fixed size
///         rotary_c2  cos or sin is not [batch, tokens, dim] of x's type
/// Source  apply_rotary_pos_emb (transformers, modeling_llama.py) and apply_rotary_pos_emb_interleave
///         (modeling_deepseek_v3.py, config rope_interleave)
extern const OpRow kRotary;

}  // namespace tandem
