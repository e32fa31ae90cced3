#pragma once

#include "contract/ops/registry.h"

namespace tandem {

/// The last tokens of every row:  y = x[:, tokens - count :]
///
/// Rows are padded on the left, so these are the newest.
///
/// Shapes  x: [batch, tokens, ...]    y: [batch, count, ...]
/// Types   any
/// Errors  last_tokens_c1  x has fewer than two axes
///         last_tokens_c2  count is below 1, or x has fewer tokens
/// Source  logits_to_keep of transformers (modeling_llama.py)
extern const OpRow kLastTokens;

}  // namespace tandem
