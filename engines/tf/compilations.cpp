#include "engines/tf/compilations.h"

#include <functional>

namespace tandem {
namespace {

using Functions = std::map<std::string, const tensorflow::FunctionDef*>;

bool is_marked(const tensorflow::NodeDef& node) {
  const auto mark = node.attr().find("_XlaMustCompile");
  return mark != node.attr().end() && mark->second.b();
}

/// The marked functions that a node calls, itself or through others.
void collect(const tensorflow::NodeDef& node, const Functions& functions, std::set<std::string>& seen,
             std::set<std::string>& marked) {
  for (const auto& [key, value] : node.attr()) {
    if (!value.has_func()) continue;
    const std::string& name = value.func().name();
    if (is_marked(node)) marked.insert(name);
    const auto found = functions.find(name);
    if (is_marked(node) || found == functions.end() || !seen.insert(name).second) continue;
    for (const tensorflow::NodeDef& inner : found->second->node_def())
      collect(inner, functions, seen, marked);
  }
}

/// Whether the first axis of its arguments is all that their shapes leave open.
bool varies_in_batch_alone(const tensorflow::FunctionDef& function) {
  const auto shapes = function.attr().find("_input_shapes");
  if (shapes == function.attr().end()) return false;
  for (const auto& shape : shapes->second.list().shape())
    for (int axis = 1; axis < shape.dim_size(); ++axis)
      if (shape.dim(axis).size() < 0) return false;
  return true;
}

}  // namespace

Compilations::Compilations(const tensorflow::MetaGraphDef& model) {
  Functions functions;
  for (const tensorflow::FunctionDef& function : model.graph_def().library().function())
    functions[function.signature().name()] = &function;
  std::map<std::string, const tensorflow::NodeDef*> nodes;
  for (const tensorflow::NodeDef& node : model.graph_def().node()) nodes[node.name()] = &node;
  for (const auto& [key, signature] : model.signature_def()) {
    std::set<std::string> seen, marked;
    for (const auto& [name, output] : signature.outputs()) {
      const auto node = nodes.find(output.name().substr(0, output.name().find(':')));
      if (node != nodes.end()) collect(*node->second, functions, seen, marked);
    }
    for (const std::string& name : marked) {
      const auto function = functions.find(name);
      const bool batch = function != functions.end() && varies_in_batch_alone(*function->second);
      ++(batch ? functions_[key].for_batch : functions_[key].for_shapes);
    }
  }
}

void Compilations::ran(const std::string& signature, const std::vector<Shape>& shapes) {
  const auto found = functions_.find(signature);
  if (found == functions_.end()) return;
  const uint64_t batch = shapes.empty() || shapes.front().empty() ? 0 : shapes.front().front();
  if (had_.emplace(signature, shapes).second) count_ += found->second.for_shapes;
  if (had_batch_.emplace(signature, batch).second) count_ += found->second.for_batch;
}

}  // namespace tandem
