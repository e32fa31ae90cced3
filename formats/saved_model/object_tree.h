#pragma once
// The object graph of a SavedModel: what tf.saved_model.load builds the Python
// object from.

#include "formats/saved_model/saved_model.h"

namespace tandem {

/// Root: one object a path component down to the variables; the lists
/// `variables` and `trainable_variables`; the map `signatures`; one attribute a
/// method and an asset. `positional` gives each method's library function
/// (positional_function).
tensorflow::SavedObjectGraph
object_tree(const SavedModelSpec &spec,
            const std::map<std::string, std::string> &positional);

} // namespace tandem
