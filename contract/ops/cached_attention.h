#pragma once

#include "contract/ops/registry.h"

namespace tandem {

/// Attention of one new token on a cache and on itself, without joining the two:
///
///   y = attention(q, [past_k, k], [past_v, v], [attention_mask, 1])
///
/// The cache may be longer than what is in it: slots whose mask is 0 are not seen, and may hold any finite
/// number.
///
/// Shapes  q: [batch, heads, 1, k]    past_k: [batch, kv_heads, past, k]    past_v: [batch, kv_heads, past,
/// v]
///         k: [batch, kv_heads, 1, k]    v: [batch, kv_heads, 1, v]    attention_mask: [batch, past]
///         y: [batch, heads, 1, v]
/// Types   one float type for all but the mask, which is i32; softmax in f32, its result rounded to the type
/// Units   scale as in attention
/// Errors  cached_attention_c1  q is not float of rank 4 with one token
///         cached_attention_c2  past_k and k are not [batch, kv_heads, past, k] and one token of it
///         cached_attention_c3  past_v and v are not [batch, kv_heads, past, v] and one token of it
///         cached_attention_c4  heads is not a multiple of kv_heads, or one of them is not fixed
///         cached_attention_c5  attention_mask is not i32[batch, past]
///         cached_attention_c6  scale is not positive
/// Source  as attention
extern const OpRow kCachedAttention;

}  // namespace tandem
