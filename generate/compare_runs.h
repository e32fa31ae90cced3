#pragma once
// Two engines continue one prompt, side by side, until they part, and each by itself from there on.

#include "generate/answer.h"
#include "verify/generation_level.h"

namespace tandem {

struct ComparedRuns {
  Answer left, right;
  std::optional<FirstDifference> difference;  ///< the left side is its reference
  /// Of the two rows of logits where they part: the largest difference, not set where the bar is on margins.
  std::optional<double> logit_difference;
  /// No difference, or one at a near tie.
  bool equal() const { return !difference || is_excused(difference->parting); }
};

struct CompareRunsOptions {
  AnswerOptions answer;      ///< `show` is told what both sides write
  Choice choice;             ///< on both sides; prompt_tokens is set by compare_runs
  double top1_gap = 0;       ///< of the tolerance table
  double max_abs_error = 0;  ///< likewise
};

/// Both sides choose by the same rules, and draw by the same numbers, until the answer ends. Greedy sides may
/// part where the two choices are within top1_gap on both. Any other choice is a function of the row of
/// logits, with the edges of top_k and top_p and of a draw in it: sides may part where the two rows agree
/// within max_abs_error. Both bars are times max(1, rms of the left row). Errors: those of the engines;
/// not_equal (verify_c4) the sides have different vocabularies, or logits that are not finite.
Result<ComparedRuns> compare_runs(Engine& left, Engine& right, const text::Tokenizer& tokenizer,
                                  const std::vector<int32_t>& prompt, CompareRunsOptions options);

}  // namespace tandem
