#pragma once
// Entries that keep what attention has seen: `prefill`, `decode` and `step`, derived from `logits`, so that
// no architecture writes them. docs/generation.md has their inputs and outputs.

#include "contract/graph.h"

namespace tandem {

struct CachedOptions {
  /// Where keys and values are made from a compressed latent (deepseek_v3), the cache holds the latent and
  /// decode absorbs the projection that would make them. Off: keys and values, as in any other model.
  bool absorb = true;
};

/// Adds to a checked contract, for every block that `logits` calls, a block prefill_NAME that also returns
/// its cache and blocks decode_NAME and step_NAME that read one, and the entries over them:
///
///   prefill(input_ids: i32[batch, tokens], attention_mask: i32[batch, tokens])
///       -> logits of the last token f32[batch, 1, vocab], present_key_N, present_value_N or present_latent_N
///   decode(input_ids: i32[batch, 1], attention_mask: i32[batch, keys], past_...: as present, [.., past, ..])
///       -> the same, one token longer
///   step(input_ids, position_ids: i32[batch, 1], attention_mask: i32[batch, past], past_...: as decode's)
///       -> logits, and the new token's rows of the caches, new_... [.., 1, ..]
///
/// decode returns caches that have grown. step leaves them as they are, for a caller who keeps them in
/// buffers of a fixed length: the mask says which slots hold a token, and the caller writes the rows to a
/// free one. step is left out where attention has a diagonal or a softmax of its own type.
///
/// Caches, of the compute type: key [batch, kv_heads, tokens, k] after rotation and value [batch, kv_heads,
/// tokens, v]; latent [batch, 1, tokens, kv_lora_rank + qk_rope_head_dim], normalised latent before rotated
/// key. Positions come from the mask, so rows may be padded on the left.
///
/// A contract with an entry draft(hidden_states, input_ids, attention_mask, position_ids), which guesses the
/// token after the next from what `logits` has behind the tap model.norm, gets what a loop with drafts needs:
///
///   prefill_hidden: as prefill, and hidden_states [batch, tokens, hidden] of all tokens
///   decode_two(input_ids: i32[batch, 2], attention_mask: i32[batch, keys], past_...)
///       -> logits f32[batch, 2, vocab], hidden_states [batch, 2, hidden], present_...
///   prefill_draft, decode_draft: of `draft`, as prefill and decode_two, but with position_ids for input_ids
///
/// A token that turns out not to belong to its row gets mask 0 from then on: it is not seen, and no position
/// is counted for it.
///
/// Errors: cached_c1 (unsupported) the model cannot be cut into steps: an op beside attention reads other
/// tokens, attention is not causal or sees later keys, a block has not exactly one attention and one result,
/// or `logits` is not made of calls one after the other.
Result<Contract> with_cached_entries(Contract contract, const CachedOptions& options = {});

/// True for the name of a cache: past_... in, present_... out; not for new_....
bool is_cache(std::string_view name);

}  // namespace tandem
