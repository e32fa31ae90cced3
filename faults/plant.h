#pragma once
// A fault put into a contract: everywhere it applies, as a wrong converter would, or in one place.

#include "faults/fault.h"

namespace tandem {

/// A faulty model: its contract, and what becomes of its weights (each weight at most once).
struct Planted {
  std::string fault;  ///< name of the row
  std::string cause;
  Contract contract;
  std::vector<WeightEdit> weights;
  std::vector<std::string>
      words;  ///< "model.layers.0.input_layernorm: epsilon 1e-06 where ...", a line a site
};

/// `fault` is a row's name or a family's, then the first row of it that applies. `at` is a place
/// ("model.layers.1") or a module ("model.layers.1.self_attn.q_proj"); empty: everywhere (for a row that is
/// planted once: where it first applies). Each site takes the row's commonest form that touches no weight
/// which an earlier site has changed.
/// Errors: fault_c1 (usage) no such fault; fault_c2 (unsupported) it applies nowhere, or not at `at`.
Result<Planted> plant(const Contract& contract, std::string_view fault, std::string_view at,
                      const FaultContext& context);

}  // namespace tandem
