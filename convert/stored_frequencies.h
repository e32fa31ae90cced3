#pragma once
// Old checkpoints carry the rotary frequencies that newer ones derive from the config (N09).

#include "base/tensor_source.h"
#include "contract/graph.h"

namespace tandem {

/// Every table of frequencies among `ignored` that disagrees with the contract's by more than 1 % (their own
/// rounding is up to 0.4 % in bfloat16), a line each. Tables from before the scaling was applied are accepted
/// too. Errors: io.
Result<std::vector<std::string>> odd_frequencies(const Contract& contract,
                                                 const std::vector<std::string>& ignored,
                                                 const TensorSource& checkpoint);

}  // namespace tandem
