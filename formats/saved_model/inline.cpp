#include "formats/saved_model/inline.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

namespace tandem {
namespace {

using tensorflow::FunctionDef;
using tensorflow::GraphDef;
using tensorflow::NodeDef;

/// Ops of several named outputs, in their order; of all others the number alone tells which one is meant.
struct OutputsRow {
  std::string_view op;
  std::array<std::string_view, 2> names;
};
constexpr OutputsRow kOutputs[] = {{"TopKV2", {"values", "indices"}}};

bool is_call(const NodeDef& node) {
  return node.op() == "StatefulPartitionedCall" || node.op() == "PartitionedCall";
}

/// Tensors of the main graph by what a function's body calls them: a bare argument, or a node's name with
/// the number of an output.
class Body {
 public:
  Body(GraphDef& graph, const FunctionDef& function, std::string prefix)
      : graph_(graph), function_(function), prefix_(std::move(prefix)) {}

  Result<std::vector<std::string>> written(const std::vector<std::string>& inputs) {
    const auto& signature = function_.signature();
    if (static_cast<size_t>(signature.input_arg_size()) != inputs.size())
      return odd("is called with {} inputs, and has {}", inputs.size(), signature.input_arg_size());
    for (int i = 0; i < signature.input_arg_size(); ++i)
      arguments_[signature.input_arg(i).name()] = inputs[static_cast<size_t>(i)];
    for (const NodeDef& node : function_.node_def()) TANDEM_CHECK(add(node));
    std::vector<std::string> outputs;
    for (const auto& output : signature.output_arg()) {
      const auto ref = function_.ret().find(output.name());
      if (ref == function_.ret().end()) return odd("has no result '{}'", output.name());
      TANDEM_TRY(outputs.emplace_back(), tensor(ref->second));
    }
    return outputs;
  }

 private:
  template <class... Parts>
  Error odd(fmt::format_string<Parts...> text, Parts&&... parts) const {
    return bug("saved_model_c8", "{} {}", function_.signature().name(),
               fmt::format(text, std::forward<Parts>(parts)...));
  }

  Status add(const NodeDef& node) {
    std::vector<std::string> inputs;
    for (const std::string& ref : node.input()) {
      TANDEM_TRY(inputs.emplace_back(), tensor(ref));
    }
    const std::string name = prefix_ + "/" + node.name();
    if (is_call(node)) return add_call(node, inputs, name);
    for (const auto& [key, value] : node.attr())
      if (value.has_func()) return odd("holds {}, a {}, which is no call", node.name(), node.op());
    NodeDef& copy = *graph_.add_node();
    copy = node;
    copy.set_name(name);
    copy.mutable_input()->Assign(inputs.begin(), inputs.end());
    copy.mutable_attr()->erase("_tandem_values");  // where values are in a function
    ops_[node.name()] = node.op();
    return {};
  }

  Status add_call(const NodeDef& node, const std::vector<std::string>& inputs, const std::string& name) {
    TANDEM_TRY(calls_[node.name()], inline_function(graph_, node.attr().at("f").func().name(), inputs, name));
    return {};
  }

  /// "argument", "node:output:0" or "^node" as a tensor of the main graph.
  Result<std::string> tensor(const std::string& ref) const {
    if (const auto argument = arguments_.find(ref); argument != arguments_.end()) return argument->second;
    const bool control = ref.starts_with('^');
    const std::string node = ref.substr(control ? 1 : 0, ref.find(':') - (control ? 1 : 0));
    const size_t first = ref.find(':'), second = ref.rfind(':');
    size_t index = 0;
    if (!control && (first == ref.npos || first == second)) return odd("reads {}", ref);
    if (!control) std::from_chars(ref.data() + second + 1, ref.data() + ref.size(), index);
    if (const auto call = calls_.find(node); call != calls_.end() && !control && index < call->second.size())
      return call->second[index];
    const auto op = ops_.find(node);
    if (op == ops_.end()) return odd("reads {}, which is not there before it", ref);
    if (control) return "^" + prefix_ + "/" + node;
    const std::string_view output = std::string_view(ref).substr(first + 1, second - first - 1);
    for (const OutputsRow& row : kOutputs)
      if (row.op == op->second)
        index += static_cast<size_t>(std::ranges::find(row.names, output) - row.names.begin());
    return fmt::format("{}/{}{}", prefix_, node, index == 0 ? "" : fmt::format(":{}", index));
  }

  GraphDef& graph_;
  const FunctionDef& function_;
  std::string prefix_;
  std::map<std::string, std::string> arguments_;
  std::map<std::string, std::string> ops_;  ///< of nodes that are there
  std::map<std::string, std::vector<std::string>> calls_;
};

}  // namespace

Result<std::vector<std::string>> inline_function(GraphDef& graph, const std::string& function,
                                                 const std::vector<std::string>& inputs,
                                                 const std::string& prefix) {
  for (const FunctionDef& definition : graph.library().function())
    if (definition.signature().name() == function) return Body(graph, definition, prefix).written(inputs);
  return bug("saved_model_c8", "no function {}", function);
}

}  // namespace tandem
