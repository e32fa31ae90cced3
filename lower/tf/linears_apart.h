#pragma once
// What XLA compiles beside the layers: the head.

#include "contract/graph.h"

namespace tandem {

/// Makes a block of its own, ENTRY_OUTPUT, of every `linear` that stands in an entry itself (the head), so
/// that it is compiled as the layers are. A contract without that entry comes back unchanged.
Contract with_linears_apart(Contract contract, std::string_view entry);

}  // namespace tandem
