#pragma once
// What XLA compiles of a mixture: all but its experts.

#include "contract/graph.h"

namespace tandem {

/// Adds entries prefill_xla and decode_xla, which are `prefill` and `step` with every block that has an op
/// `experts` called as two: NAME_before, what does not follow from the experts, and NAME_experts, they and
/// what does. XLA would copy each kernel that it cuts out of a stack, and knows no group of a size that is
/// computed. Blocks without experts are called as they are. A contract without these entries comes back
/// unchanged.
Contract with_experts_apart(Contract contract);

/// Whether a block is left to stock kernels.
bool has_experts(const Block& block);

}  // namespace tandem
