#pragma once
// Signatures that use other signatures: whole-loop generation over prefill and decode, and scores of given
// text. docs/generation.md says what they take and give.

#include "formats/saved_model/saved_model.h"

namespace tandem {

/// What such a signature is built from: functions of the library, by what they compute.
struct StepFunctions {
  const SavedFunction& prefill;
  const SavedFunction& decode;
  const std::vector<SavedVariable>& variables;
};

/// generate_greedy(attention_mask, input_ids: i32[batch, tokens], max_new_tokens: i32[batch])
///     -> lengths i32[batch], tokens i32[batch, longest of lengths]
/// The most likely token again and again, the lowest id of equals; a row ends with one of eos_token_ids
/// (which counts as a token of it) or at its own max_new_tokens, and the loop when all rows have ended. Past
/// its end a row holds the first of eos_token_ids, or 0. Appends to `library`; `name` is that of the
/// function.
SavedFunction lower_generate_greedy(std::vector<tensorflow::FunctionDef>& library, const std::string& name,
                                    const StepFunctions& steps, const std::vector<int64_t>& eos_token_ids);

/// score(attention_mask, input_ids: i32[batch, tokens]) -> log_probabilities f32[batch, tokens]
/// The natural logarithm of each token's probability after the tokens before it; 0 for padding and for a
/// row's first token. `logits` is serving_default.
SavedFunction lower_score(std::vector<tensorflow::FunctionDef>& library, const std::string& name,
                          const SavedFunction& logits, const std::vector<SavedVariable>& variables);

}  // namespace tandem
