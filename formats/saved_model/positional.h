#pragma once
// Python calls a method with positional or keyword arguments; a library
// function wants its inputs sorted by name.

#include "formats/saved_model/saved_model.h"

namespace tandem {

/// The order of a method's parameters in Python: input_ids first, as people
/// write model(input_ids, attention_mask); the rest by name.
std::vector<TensorSpec>
method_parameters(const std::vector<TensorSpec> &sorted_inputs);

/// A function that takes its inputs in method_parameters order, then the
/// captures, and calls `callee`.
tensorflow::FunctionDef
positional_function(const std::string &name,
                    const tensorflow::FunctionDef &callee,
                    const SavedFunction &method);

} // namespace tandem
