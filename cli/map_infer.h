#pragma once
// tandem map --infer: two checkpoints of unknown kinship.

#include "cli/command.h"

namespace tandem {

struct InferOptions {
  std::string left, right;
  std::string out;     ///< where the rule table goes, or empty
  bool guess = false;  ///< rules also for what only names or order decide
  SafetensorsLimits limits;
};

/// Pairs the tensors of two checkpoints, prints what was found, and writes the rules. The code is 0 if every
/// tensor is paired without doubt, else 1.
Result<int> infer_map(const InferOptions& options, bool json);

}  // namespace tandem
