#pragma once

#include "contract/ops/registry.h"

namespace tandem {

/// Attention with grouped heads, causal unless told otherwise. With j = h / (heads / kv_heads) (whole
/// numbers):
///
///   score[b, h, q, s] = sum_i(q[b, h, q, i] * k[b, j, s, i]) * scale         if s <= q + (keys - tokens) +
///   diagonal (any s where causal is false) and attention_mask[b, s] != 0
///                     = the finite minimum of the type                       otherwise
///   y[b, h, q, :]     = sum_s(softmax_s(score[b, h, q, s]) * v[b, j, s, :])
///
/// Causality goes by index, not by position id: the queries are those of the last keys, of all keys where
/// there are as many. A query that may see nothing (left padding) spreads evenly
/// over all keys: a finite row that nobody reads, never NaN.
///
/// causal is true and diagonal 0 where they are absent. softmax_dtype, where it is there, is the type that
/// the softmax is taken in: scores (before the mask) and softmax are rounded to it, in f64 evaluation too.
///
/// Shapes  q: [batch, heads, tokens, k]    k: [batch, kv_heads, keys, k]    v: [batch, kv_heads, keys, v]
///         attention_mask: [batch, keys], 1 for tokens and 0 for padding    y: [batch, heads, tokens, v]
///         keys is tokens, or those of a cache and the tokens after them
/// Types   one float type for q, k, v and y; mask i32; softmax in f32, its result rounded to the type
/// Units   scale multiplies scores: size^-0.5, times whatever the rotary scaling asks for
/// Errors  attention_c1  q is not float of rank 4
///         attention_c2  k is not [batch, kv_heads, keys, k] of q's type
///         attention_c3  v is not [batch, kv_heads, keys, v] of q's type
///         attention_c4  heads or kv_heads is not fixed, or heads is not a multiple of kv_heads
///         attention_c5  attention_mask is not i32[batch, keys]
///         attention_c6  scale is not positive
///         attention_c7  diagonal is there though causal is false, or is beyond +-2^20
///         attention_c8  softmax_dtype is none of f32, bf16 and f16
///         attention_c9  there are fewer keys than queries, or the mask has not one entry a key
/// Source  eager_attention_forward and repeat_kv (transformers, modeling_llama.py); masks of
/// masking_utils.py;
///         diagonal as in torch.tril
extern const OpRow kAttention;

/// Which keys a query sees, and the softmax's type; the optional attributes of a checked node.
struct AttentionForm {
  bool causal = true;
  int64_t diagonal = 0;
  std::optional<DType> softmax_dtype;
};
AttentionForm attention_form(const Node& node);

}  // namespace tandem
