#pragma once
// What an engine says comes next.

#include "verify/probes.h"

namespace tandem {

/// Logits after the last token of each row of a batch.
struct NextLogits {
  std::vector<float> values;  ///< [rows, vocab]
  uint64_t vocab = 0;
  std::span<const float> row(size_t i) const { return std::span(values).subspan(i * vocab, vocab); }
};

/// Runs rows of ids, padded on the left. Errors: the engine's; verify_c4 it answers with another dtype or
/// shape.
Result<NextLogits> next_logits(Engine& engine, const std::vector<std::vector<int32_t>>& rows);

/// The most likely id, the lowest of equals. `logits` is not empty.
int32_t most_likely(std::span<const float> logits);

/// Ids that are not `allowed` get the smallest logit of the row, so that none of them is chosen. An empty
/// list allows all; ids beyond its end are not allowed.
void keep_allowed(std::span<float> logits, const std::vector<bool>& allowed);

}  // namespace tandem
