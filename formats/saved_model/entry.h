#pragma once
// The functions that users call, each around one of the library: they check
// shapes, and put the arguments in the caller's order.

#include "formats/saved_model/saved_model.h"

namespace tandem {

/// The order of a method's parameters in Python: input_ids first, as people
/// write model(input_ids, attention_mask); the rest by name.
std::vector<TensorSpec> method_parameters(const std::vector<TensorSpec>& sorted_inputs);

/// A library function `name` that takes `parameters` (function.inputs in any
/// order), then the captures; refuses another shape with a text that names the
/// argument; and calls function.function. Arguments carry their shapes, for
/// tools that look at them.
tensorflow::FunctionDef entry_function(const std::string& name, const SavedFunction& function,
                                       const std::vector<TensorSpec>& parameters,
                                       const std::vector<SavedVariable>& variables);

}  // namespace tandem
