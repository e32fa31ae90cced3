#pragma once
// A SavedModel in a TensorFlow session.

#include "engines/serve.h"
#include "engines/tf/c_api.h"

namespace tandem {

/// The bytes of a session's ConfigProto: graphs are pruned before they are placed, and both thread pools have
/// that size; 0 is TensorFlow's default.
std::string session_config(int threads);

/// Loads the SavedModel at words["path"] (tag "serve"), or the model in stages, with words["threads"]
/// threads. With words["stream"] = "1" no weights: each entry is run part by part
/// (engines/tf/stream_graph.h). With words["compiled"] = "1" last_logits goes through the compiled
/// signatures. Errors: tf_c15 (unsupported) compiled was asked for and the model has no such signatures;
/// TensorFlow's own, by its status code; tf_c2; of streaming tf_c10 and tf_c13 (unsupported) not a SavedModel
/// that convert wrote.
Result<std::unique_ptr<ServedModel>> load_saved_model(const TfApi& api, const Words& words);

}  // namespace tandem
