#pragma once
// Two engines continue one prompt, side by side, until they part, and each by itself from there on.

#include "generate/answer.h"
#include "verify/generation_level.h"

namespace tandem {

struct ComparedRuns {
  Answer left, right;
  std::optional<FirstDifference> difference;  ///< the left side is its reference
  /// No difference, or one at a near tie.
  bool equal() const { return !difference || is_excused(difference->parting); }
};

struct CompareRunsOptions {
  AnswerOptions answer;  ///< `show` is told what both sides write
  std::vector<bool> allowed;
  double top1_gap = 0;  ///< of the tolerance table
};

/// The most likely token each time, on both sides, until the answer ends. Errors: those of the engines;
/// not_equal (verify_c4) the sides have different vocabularies, or logits that are not finite.
Result<ComparedRuns> compare_runs(Engine& left, Engine& right, const text::Tokenizer& tokenizer,
                                  const std::vector<int32_t>& prompt, const CompareRunsOptions& options);

}  // namespace tandem
