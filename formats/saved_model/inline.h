#pragma once
// Functions written out as nodes of the main graph, for tools that cannot see into functions.

#include <string>
#include <vector>

#include "base/result.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace tandem {

/// Adds the body of a function of the graph's library, and of all that it calls, to the graph's own nodes,
/// under names that begin with `prefix` and "/". `inputs` are the tensors that it is called with ("x",
/// "x:1"); the result has the tensors of its outputs. Bodies must be in the order in which they are computed.
/// Errors: saved_model_c8 a body that reads what is not there before it, or a node with a function inside
/// that is no call (a loop).
Result<std::vector<std::string>> inline_function(tensorflow::GraphDef& graph, const std::string& function,
                                                 const std::vector<std::string>& inputs,
                                                 const std::string& prefix);

}  // namespace tandem
