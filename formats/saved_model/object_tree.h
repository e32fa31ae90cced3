#pragma once
// The object graph of a SavedModel: what tf.saved_model.load builds the Python
// object from.

#include "formats/saved_model/saved_model.h"

namespace tandem {

/// Names of entry functions, by signature key and by method.
struct EntryNames {
  std::map<std::string, std::string> signatures, methods;
};

/// Root: one object a path component down to the variables; the lists
/// `variables` and `trainable_variables`; the map `signatures`; one attribute a
/// method and an asset. `entries` names their functions.
tensorflow::SavedObjectGraph object_tree(const SavedModelSpec& spec, const EntryNames& entries);

}  // namespace tandem
