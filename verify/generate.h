#pragma once
// Greedy continuation by any engine: the plainest loop, so that three frameworks can be asked the same.

#include "verify/probes.h"

namespace tandem {

struct GenerateOptions {
  uint64_t max_new_tokens = 16;
  std::vector<int64_t> eos_token_ids;  ///< stops after one of these
};

/// Appends the most likely id (the lowest of equals) one by one; every step runs the whole sequence. Returns
/// the new ids. `stop` is asked before each step; its error ends the loop. Errors: the engine's; verify_c4
/// odd or NaN logits.
Result<std::vector<int32_t>> generate(Engine& engine, std::vector<int32_t> prompt,
                                      const GenerateOptions& options,
                                      const std::function<Status()>& stop = {});

}  // namespace tandem
