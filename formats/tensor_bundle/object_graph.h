#pragma once
// The object graph of a checkpoint: variables are found by walking named edges from the root, not by the text
// of their keys.

#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace tandem {

/// The names of each value in a serialized TrackableObjectGraph, by checkpoint key; the preferred name comes
/// first.
///
/// Preference: paths that begin with "model" or "lm_head"; then other paths; paths through a root's lists
/// (`variables`, `trainable_variables`, ...) only where nothing else leads. Shortest first, then in the order
/// of the file. Names are relative to the model's root: the object with a child `model` that has a child
/// `layers`; that is the graph's root, or else its only child of that form (tf.train.Checkpoint(model=loaded)
/// puts the tree one level down), or else the graph's root again. Errors: T4 for bytes that are no graph, an
/// edge to no node, names of over 256 MiB together.
Result<std::map<std::string, std::vector<std::string>>> names_by_key(const std::string& graph);

}  // namespace tandem
