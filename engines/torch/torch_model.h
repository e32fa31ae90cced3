#pragma once
// A checkpoint of ours run by PyTorch: read natively, computed op by op from its contract.

#include "engines/serve.h"

namespace tandem {

/// Loads the model at words["path"]: a Hugging Face folder, or a SavedModel of ours, whose assets hold its
/// config, rules and contract. words["dtype"]: "float32" follows the contract; "float64" computes all floats
/// in float64, and returns them so. Weights are read when they are first used; with words["stream"] = "1" for
/// each op that uses one, and dropped after it, of embeddings and mixtures only the rows that it reads.
/// Errors: torch_c1 (usage) another dtype; torch_c2 (invalid) the folder is neither; torch_c3 (invalid) the
/// contract names a weight that no rule makes; those of the readers, architectures and rules.
Result<std::unique_ptr<ServedModel>> load_torch_model(const Words& words);

}  // namespace tandem
