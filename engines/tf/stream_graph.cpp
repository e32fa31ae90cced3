#include "engines/tf/stream_graph.h"

#include <algorithm>
#include <charconv>

namespace tandem {
namespace {

using tensorflow::NodeDef;

/// "node:3" as "node" and 3.
std::pair<std::string, int> output_of(const std::string& input) {
  const size_t colon = input.rfind(':');
  int index = 0;
  if (colon != input.npos) std::from_chars(input.data() + colon + 1, input.data() + input.size(), index);
  return {input.substr(0, colon), index};
}

/// The index in `values` behind the last one that the node of values[begin] makes.
size_t end_of_node(const std::vector<EntryValue>& values, size_t begin) {
  size_t end = begin;
  while (end < values.size() && values[end].node == values[begin].node) ++end;
  return end;
}

NodeDef& add_node(tensorflow::GraphDef& graph, const std::string& name, const char* op,
                  const std::vector<std::string>& inputs) {
  NodeDef& node = *graph.add_node();
  node.set_name(name);
  node.set_op(op);
  for (const std::string& input : inputs) node.add_input(input);
  return node;
}

void add_strings(tensorflow::GraphDef& graph, const std::string& name, const std::vector<std::string>& texts,
                 bool scalar) {
  NodeDef& node = add_node(graph, name, "Const", {});
  (*node.mutable_attr())["dtype"].set_type(tensorflow::DT_STRING);
  tensorflow::TensorProto& tensor = *(*node.mutable_attr())["value"].mutable_tensor();
  tensor.set_dtype(tensorflow::DT_STRING);
  if (scalar)
    tensor.mutable_tensor_shape();
  else
    tensor.mutable_tensor_shape()->add_dim()->set_size(static_cast<int64_t>(texts.size()));
  for (const std::string& text : texts) tensor.add_string_val(text);
}

}  // namespace

Result<CheckpointKeys> checkpoint_keys(const tensorflow::MetaGraphDef& model, const std::string& folder) {
  CheckpointKeys found{folder + "/variables/variables", {}, {}};
  std::map<std::string, const NodeDef*> nodes;
  for (const NodeDef& node : model.graph_def().node()) nodes[node.name()] = &node;
  const auto node_at = [&](const std::string& name) {
    const auto node = nodes.find(name);
    return node == nodes.end() ? nullptr : node->second;
  };
  for (const NodeDef& node : model.graph_def().node()) {
    if (node.op() != "AssignVariableOp" || node.input_size() < 2) continue;
    const auto [source, index] = output_of(node.input(1));
    const NodeDef* restore = node_at(source);
    if (!restore || restore->op() != "RestoreV2" || restore->input_size() < 2) continue;
    const NodeDef* names = node_at(output_of(restore->input(1)).first);
    if (!names || !names->attr().contains("value")) continue;
    const auto& texts = names->attr().at("value").tensor().string_val();
    if (index < texts.size()) found.keys[output_of(node.input(0)).first] = texts[index];
  }
  std::vector<std::string> lost;
  for (const NodeDef& node : model.graph_def().node()) {
    if (node.op() != "VarHandleOp") continue;
    if (!found.keys.contains(node.name())) lost.push_back(node.name());
    if (const auto dtype = node.attr().find("dtype"); dtype != node.attr().end())
      found.dtypes[node.name()] = dtype->second.type();
  }
  if (!lost.empty())
    return unsupported("tf_c13", "the graph does not say where {} variables lie, the first being {}",
                       lost.size(), lost.front())
        .because("only SavedModels that convert wrote can be streamed");
  return found;
}

Result<std::vector<StreamStep>> make_stream_steps(const tensorflow::MetaGraphDef& model,
                                                  const PartRequest& request) {
  std::vector<StreamStep> steps;
  if (request.scope == Scope::block) {
    TANDEM_TRY(PartGraph part, make_part_graph(model, request));
    steps.push_back({std::move(part), request.outputs, {}});
    return steps;
  }
  TANDEM_TRY(const EntryValues entry, entry_values(model, request.signature));
  const std::vector<EntryValue>& values = entry.values;
  std::vector<size_t> begins;
  for (size_t begin = 0; begin < values.size(); begin = end_of_node(values, begin)) begins.push_back(begin);
  std::set<std::string> needed(request.outputs.begin(), request.outputs.end()), used_later = needed;
  for (auto begin = begins.rbegin(); begin != begins.rend(); ++begin) {
    PartRequest step{request.signature, Scope::entry, request.given, {}};
    for (size_t i = *begin; i < end_of_node(values, *begin); ++i)
      if (needed.contains(values[i].name) && !request.given.contains(values[i].name))
        step.outputs.push_back(values[i].name);
    for (const std::string& name : request.outputs)
      if (const auto result = entry.results.find(name);
          result != entry.results.end() && result->second == values[*begin].node &&
          std::find(step.outputs.begin(), step.outputs.end(), name) == step.outputs.end())
        step.outputs.push_back(name);
    if (step.outputs.empty()) continue;
    for (size_t i = 0; i < *begin; ++i) step.given.emplace(values[i].name, values[i].dtype);
    TANDEM_TRY(PartGraph part, make_part_graph(model, step));
    std::set<std::string> finished;
    for (const std::string& feed : part.feeds) {
      needed.insert(feed);
      if (used_later.insert(feed).second) finished.insert(feed);
    }
    steps.push_back({std::move(part), step.outputs, std::move(finished)});
  }
  std::reverse(steps.begin(), steps.end());
  std::set<std::string> made;
  for (const auto& [name, dtype] : request.given) made.insert(name);
  for (const StreamStep& step : steps) made.insert(step.outputs.begin(), step.outputs.end());
  for (const std::string& output : request.outputs)
    if (!made.contains(output))
      return invalid("tf_c11", "no value '{}' behind '{}'", output, request.signature);
  return steps;
}

std::vector<std::string> add_restoring(PartGraph& part, const CheckpointKeys& keys) {
  std::vector<std::string> dropping;
  if (part.handles.empty()) return dropping;
  NodeDef* call = nullptr;
  for (NodeDef& node : *part.graph.mutable_node())
    if (node.name() == "part") call = &node;
  std::vector<std::string> names;
  for (const auto& [handle, variable] : part.handles) names.push_back(keys.keys.at(variable));
  for (size_t i = 0; i < names.size(); ++i) call->add_input(fmt::format("^restore/assign_{}", i));
  add_strings(part.graph, "restore/prefix", {keys.prefix}, true);
  add_strings(part.graph, "restore/names", names, false);
  add_strings(part.graph, "restore/slices", std::vector<std::string>(names.size()), false);
  NodeDef& restore = add_node(part.graph, "restore/values", "RestoreV2",
                              {"restore/prefix", "restore/names", "restore/slices"});
  auto& dtypes = *(*restore.mutable_attr())["dtypes"].mutable_list();
  size_t i = 0;
  for (const auto& [handle, variable] : part.handles) {
    const auto dtype = static_cast<tensorflow::DataType>(keys.dtypes.at(variable));
    dtypes.add_type(dtype);
    NodeDef& assign = add_node(part.graph, fmt::format("restore/assign_{}", i), "AssignVariableOp",
                               {handle, fmt::format("restore/values:{}", i)});
    (*assign.mutable_attr())["dtype"].set_type(dtype);
    dropping.push_back(fmt::format("restore/drop_{}", i++));
    NodeDef& drop = add_node(part.graph, dropping.back(), "DestroyResourceOp", {handle, "^part"});
    (*drop.mutable_attr())["ignore_lookup_error"].set_b(true);
  }
  return dropping;
}

}  // namespace tandem
