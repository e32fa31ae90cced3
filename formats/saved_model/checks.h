#pragma once
// Static checks of a SavedModel proto from outside, before anybody runs it.

#include <string_view>

#include "formats/saved_model/saved_model.h"

namespace tandem {

/// Parses saved_model.pb. Errors: T1 for bytes that are no SavedModel (cut
/// short, nested too deeply), more than kMaxSavedModelBytes, or no meta graph.
Result<tensorflow::SavedModel> parse_saved_model(std::string_view bytes);

/// Errors: T2 for a function that calls itself (directly or in a circle), a
/// call of a function that is not there, a cycle of nodes, an input that names
/// no node, two nodes or functions of one name, a Const without a value (or
/// with one of another size or dtype), an attribute that is missing or of the
/// wrong type; an edge of the object graph to no node.
Status check(const tensorflow::SavedModel& model);

}  // namespace tandem
