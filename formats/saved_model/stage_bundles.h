#pragma once
// The files of a model in stages.

#include "formats/saved_model/stage_manifest.h"
#include "formats/tensor_bundle/tensor_bundle.h"

namespace tandem {

/// The manifest of a folder. Errors: missing; those of stages_from_text.
Result<StageManifest> read_stages(const FileSystem& files, const std::string& folder);
/// The weights of all stages in a folder. Errors: those of TensorBundle::open and join.
Result<std::unique_ptr<TensorBundle>> open_stage_bundles(const FileSystem& files, const std::string& folder,
                                                         const StageManifest& manifest);

}  // namespace tandem
