#pragma once
// A model in stages (formats/saved_model/stage_manifest.h) as one: each stage is a SavedModel in a session of
// its own, and hidden states pass from one to the next in this process.

#include "engines/tf/loaded_model.h"
#include "formats/saved_model/stage_manifest.h"

namespace tandem {

/// The signatures that all stages have, and those of layers, as a model of one piece has them: without
/// hidden_states where a stage before gives them, and without hidden_states_out.
Signatures joined_signatures(const std::vector<const Signatures*>& stages);

/// Answers as a model of one piece: run, last_logits, values by their names in the whole contract.
/// Errors: tf_c15 steps are compiled, and the stages have no such signatures; stages_c5 (corrupt) stages
/// whose signatures do not fit each other.
Result<std::unique_ptr<ServedModel>> staged_model(const TfApi& api, const StageManifest& manifest,
                                                  std::vector<std::unique_ptr<LoadedModel>> stages,
                                                  StepKind steps);

}  // namespace tandem
