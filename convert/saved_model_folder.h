#pragma once
// The files of a TensorFlow model: graph, assets, and the bundle of its variables.

#include "formats/saved_model/saved_model.h"
#include "rules/rules.h"

namespace tandem {

/// Writes saved_model.pb, assets/ and variables/ into an existing folder. `plans` name the tensors of the
/// bundle, those that the graph does not use (MTP) included; `tensors` has each under its TensorFlow name.
Status write_saved_model_folder(const FileSystem& files, const std::string& folder,
                                const SavedModelSpec& spec, const std::vector<TensorPlan>& plans,
                                const TensorSource& tensors);

/// The bundle alone, at a prefix.
Status write_bundle(const FileSystem& files, const std::string& prefix, const SavedModelSpec& spec,
                    const std::vector<TensorPlan>& plans, const TensorSource& tensors);

/// The plans whose tensors are variables of the graph.
std::vector<TensorPlan> in_graph(const std::vector<TensorPlan>& plans);

}  // namespace tandem
