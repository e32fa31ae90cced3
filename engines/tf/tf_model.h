#pragma once
// A SavedModel in a TensorFlow session.

#include "engines/serve.h"
#include "engines/tf/c_api.h"

namespace tandem {

/// The bytes of a ConfigProto that sets the sizes of both thread pools; empty for 0 threads (TensorFlow's
/// default).
std::string thread_config(int threads);

/// Loads the SavedModel at words["path"] (tag "serve") with words["threads"] threads.
/// Errors: TensorFlow's own, by its status code; tf_c2.
Result<std::unique_ptr<ServedModel>> load_saved_model(const TfApi& api, const Words& words);

}  // namespace tandem
