#pragma once
// Signatures that use other signatures: whole-loop generation over prefill and decode, the next token, and
// scores of given text. docs/generation.md says what they take and give.

#include "lower/tf/choosing.h"

namespace tandem {

/// name(attention_mask, input_ids: i32[batch, tokens], max_new_tokens: i32[batch], and those of the chooser)
///     -> lengths i32[batch], tokens i32[batch, longest of lengths]
/// Token after token as `chooser` chooses; a row ends with one of the chooser's end tokens (which counts as a
/// token of it) or at its own max_new_tokens, and the loop when all rows have ended. Appends to `library`.
SavedFunction lower_generate(std::vector<tensorflow::FunctionDef>& library, const std::string& name,
                             const StepFunctions& steps, const Chooser& chooser);

/// The functions of entries prefill_hidden, decode_two, prefill_draft and decode_draft (contract/cached.h).
struct DraftingFunctions {
  const SavedFunction &prefill, &decode, &prefill_draft, &decode_draft;
  const std::vector<SavedVariable>& variables;
};

/// name(attention_mask, input_ids: i32[batch, tokens], max_new_tokens: i32[batch])
///     -> accepted i32[batch], drafted i32[batch], lengths i32[batch], tokens i32[batch, longest of lengths]
/// Tokens and lengths of generate_greedy. A turn drafts one token a row, and has the model choose at both
/// places at once; where it chooses the drafted one, the row gets two tokens. `drafted` counts a row's turns,
/// `accepted` those in which the model chose the draft. Appends to `library`.
SavedFunction lower_speculative(std::vector<tensorflow::FunctionDef>& library, const std::string& name,
                                const DraftingFunctions& functions, const Chooser& chooser);

/// next_logits(attention_mask, input_ids: i32[batch, tokens]) -> logits f32[batch, 1, vocab]
/// Of the last token: those of prefill, without the caches.
SavedFunction lower_next_logits(std::vector<tensorflow::FunctionDef>& library, const std::string& name,
                                const StepFunctions& steps);

/// next_tokens(attention_mask, input_ids: i32[batch, tokens], top_k: i32[batch])
///     -> log_probabilities f32[batch, k], tokens i32[batch, k]
/// The k most likely next tokens, from the top, the lowest id first of equals; k is the largest of top_k, or
/// the vocabulary.
SavedFunction lower_next_tokens(std::vector<tensorflow::FunctionDef>& library, const std::string& name,
                                const StepFunctions& steps);

/// score(attention_mask, input_ids: i32[batch, tokens]) -> log_probabilities f32[batch, tokens]
/// The natural logarithm of each token's probability after the tokens before it; 0 for padding and for a
/// row's first token. `logits` is serving_default.
SavedFunction lower_score(std::vector<tensorflow::FunctionDef>& library, const std::string& name,
                          const SavedFunction& logits, const std::vector<SavedVariable>& variables);

}  // namespace tandem
