#pragma once
// From logits to the next token, by rules that are the same for every engine. docs/sampling.md writes them
// down; nothing here depends on a framework, a thread or a platform.

#include <span>
#include <vector>

#include "base/result.h"

namespace tandem {

struct SamplingOptions {
  double temperature = 1;         ///< logits are divided by it; 0: the most likely token, and no draw
  uint64_t top_k = 0;             ///< only so many of the most likely tokens; 0: all
  double top_p = 1;               ///< only the most likely tokens that have this probability together; 1: all
  double min_p = 0;               ///< only tokens this likely, as a part of the most likely one; 0: all
  double repetition_penalty = 1;  ///< divides positive logits of tokens seen, multiplies negative ones
  uint64_t seed = 0;
};

/// Errors: sampling_c1 (usage) an option is not finite or out of its range.
Status check(const SamplingOptions& options);

/// A token that may be drawn, and its probability among all that may.
struct Candidate {
  int32_t id = 0;
  double probability = 0;
};

/// What may be drawn, by id. `seen`: the prompt and what was made. Options must have been checked.
/// Errors: sampling_c2 (not_equal) the logits hold NaN, or no finite number; sampling_c3 (usage) a token seen
/// that is not one of the logits, or there are none.
Result<std::vector<Candidate>> candidates(std::span<const float> logits, std::span<const int32_t> seen,
                                          const SamplingOptions& options);

/// The token of `row` (its number in the batch) at `step` (0 for the first one made). Errors: as candidates.
Result<int32_t> sample_token(std::span<const float> logits, std::span<const int32_t> seen,
                             const SamplingOptions& options, uint64_t row, uint64_t step);

}  // namespace tandem
