#pragma once
// The generation level: both sides continue the same prompts greedily, token by token, each from its own
// tokens.

#include "text/tokenizer.h"
#include "verify/model_level.h"

namespace tandem {

struct Prompt {
  std::string name;  ///< "text 3", "random ids 17"
  std::vector<int32_t> ids;
};

/// Why two continuations part. A near tie is no fault: the logits allow either token.
enum class Parting {
  near_tie,          ///< on both sides the two tokens' logits are within the table's gap of each other
  routing_near_tie,  ///< the row's logits are equal once near ties of the routing fall as in the reference
  fault,
  not_finite,  ///< a logit is NaN or infinite, on either side or on both: never equal
};
std::string_view name(Parting parting);
bool is_excused(Parting parting);

/// The first token of one prompt that is not the same.
struct FirstDifference {
  std::string prompt;
  uint64_t prompt_tokens = 0;  ///< of the prompt itself
  uint64_t step = 0;           ///< of the new tokens, from 0
  Parting parting = Parting::fault;
  int32_t reference_id = 0, other_id = 0;  ///< the two choices; not set where logits are not finite
  std::string reference_text, other_text;  ///< as text, where there is a tokenizer
  double reference_margin = 0;  ///< the reference's logit of its choice over that of the other's choice
  double other_margin = 0;      ///< and the other side's logit of its choice over the reference's choice
  double bar = 0;               ///< margins up to this are near ties
};

/// Of two rows of logits, finite and of one length: both choices, and whether their parting is a near tie.
/// `top1_gap` is the table's. Equal choices have margins of 0.
FirstDifference difference_of(std::span<const float> reference, std::span<const float> other,
                              double top1_gap);
/// Of any two choices: margins are below 0 where a side did not take its most likely token.
FirstDifference difference_of(std::span<const float> reference, int32_t reference_id,
                              std::span<const float> other, int32_t other_id, double top1_gap);

struct GenerationLevel {
  uint64_t prompts = 0;
  uint64_t max_new_tokens = 0;
  uint64_t tokens = 0;                       ///< compared: up to and with the first difference of each prompt
  uint64_t exact = 0;                        ///< prompts whose continuations are equal in full
  uint64_t near_ties = 0;                    ///< prompts that part at one, of either kind
  uint64_t faults = 0;                       ///< prompts that part otherwise
  std::vector<FirstDifference> differences;  ///< by prompt
  std::optional<double> bleu;                ///< where there is text
  std::vector<std::string> skipped;          ///< what could not be done, and why
  std::vector<std::string> failures;         ///< empty: equal
  double exact_share() const;
  bool passed() const { return failures.empty(); }
};
Json to_json(const GenerationLevel& level);

/// The share of text that must be the same, as BLEU-4 on a scale of 0 to 1.
inline constexpr double kBleuBar = 0.998;

struct GenerationOptions {
  uint64_t max_new_tokens = 20;
  uint64_t vocab_size = 1;           ///< for the size of batches alone
  uint64_t max_logits = 16'000'000;  ///< that a side may compute in one call: batch x tokens x vocab
  const text::Tokenizer* tokenizer = nullptr;  ///< decodes; null: no text, and no BLEU
  ModelLevelOptions model;                     ///< row of the table, and what is known of the routing
  std::function<Status()> stop;                ///< asked before each step; its error ends the level
};

/// Continues every prompt by max_new_tokens on both sides (an end token stops nothing: what follows it must
/// be equal too), all rows of a step in batches padded on the left, without a cache. A prompt whose
/// continuations have parted is not compared further. BLEU is over all continuations as text, each up to its
/// near tie if it has one. The level passes if no prompt parts but at a near tie and BLEU reaches its bar;
/// comparing nothing fails. Errors: those of the engines; verify_c4 an engine answers with another shape;
/// not_equal (verify_c4) the sides have different vocabularies.
Result<GenerationLevel> compare_generation(Engine& reference, Engine& other,
                                           const std::vector<Prompt>& prompts,
                                           const GenerationOptions& options);

}  // namespace tandem
