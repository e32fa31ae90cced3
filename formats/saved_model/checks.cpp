#include "formats/saved_model/checks.h"

#include <array>
#include <unordered_map>

#include "formats/proto/quiet_parse.h"

namespace tandem {
namespace {

using tensorflow::AttrValue;
using tensorflow::NodeDef;
using Edges = std::vector<std::vector<size_t>>;  ///< of each item, the items it depends on
using Index = std::unordered_map<std::string_view, size_t>;

struct AttributeRow {
  std::string_view op, attribute;
  AttrValue::ValueCase type;
};

// Attributes without which an op cannot be built. An op that is not here is
// TensorFlow's to check.
constexpr std::array<AttributeRow, 25> kAttributes{{
    {"Const", "dtype", AttrValue::kType},
    {"Const", "value", AttrValue::kTensor},
    {"Placeholder", "dtype", AttrValue::kType},
    {"VarHandleOp", "dtype", AttrValue::kType},
    {"VarHandleOp", "shape", AttrValue::kShape},
    {"VarHandleOp", "shared_name", AttrValue::kS},
    {"ReadVariableOp", "dtype", AttrValue::kType},
    {"AssignVariableOp", "dtype", AttrValue::kType},
    {"RestoreV2", "dtypes", AttrValue::kList},
    {"SaveV2", "dtypes", AttrValue::kList},
    {"Identity", "T", AttrValue::kType},
    {"MatMul", "T", AttrValue::kType},
    {"Cast", "SrcT", AttrValue::kType},
    {"Cast", "DstT", AttrValue::kType},
    {"PartitionedCall", "f", AttrValue::kFunc},
    {"PartitionedCall", "Tin", AttrValue::kList},
    {"PartitionedCall", "Tout", AttrValue::kList},
    {"StatefulPartitionedCall", "f", AttrValue::kFunc},
    {"StatefulPartitionedCall", "Tin", AttrValue::kList},
    {"StatefulPartitionedCall", "Tout", AttrValue::kList},
    {"While", "cond", AttrValue::kFunc},
    {"While", "body", AttrValue::kFunc},
    {"StatelessWhile", "cond", AttrValue::kFunc},
    {"StatelessWhile", "body", AttrValue::kFunc},
    {"If", "then_branch", AttrValue::kFunc},
}};

/// An item on a cycle, or nothing. Takes items away that depend on nothing
/// left; what remains, depends on a cycle.
std::optional<size_t> on_cycle(const Edges& depends) {
  Edges users(depends.size());
  std::vector<size_t> open(depends.size()), ready;
  for (size_t item = 0; item < depends.size(); ++item) {
    open[item] = depends[item].size();
    if (open[item] == 0) ready.push_back(item);
    for (const size_t needed : depends[item]) users[needed].push_back(item);
  }
  for (size_t done = 0; done < ready.size(); ++done)
    for (const size_t user : users[ready[done]])
      if (--open[user] == 0) ready.push_back(user);
  if (ready.size() == depends.size()) return std::nullopt;
  size_t item = 0;
  while (open[item] == 0) ++item;
  std::vector<bool> seen(depends.size());
  while (!seen[item]) {
    seen[item] = true;
    for (const size_t needed : depends[item])
      if (open[needed] > 0) {
        item = needed;
        break;
      }
  }
  return item;
}

Status check_const(const NodeDef& node) {
  const auto& tensor = node.attr().at("value").tensor();
  if (tensor.dtype() != node.attr().at("dtype").type())
    return corrupt("T2", "the value has dtype {}, the node has {}", static_cast<int>(tensor.dtype()),
                   static_cast<int>(node.attr().at("dtype").type()));
  Shape shape;
  for (const auto& dim : tensor.tensor_shape().dim()) {
    if (dim.size() < 0) return corrupt("T2", "an axis of the value is {}", dim.size());
    shape.push_back(static_cast<uint64_t>(dim.size()));
  }
  const auto dtype = dtype_of_tensorflow(tensor.dtype());
  TANDEM_TRY(const uint64_t bytes, byte_count(dtype.value_or(DType::u8), shape));
  if (dtype && !tensor.tensor_content().empty() && tensor.tensor_content().size() != bytes)
    return corrupt("T2", "the value of {} bytes has {}", bytes, tensor.tensor_content().size());
  return {};
}

Status check_attributes(const NodeDef& node) {
  for (const AttributeRow& expected : kAttributes) {
    if (node.op() != expected.op) continue;
    const auto found = node.attr().find(std::string(expected.attribute));
    if (found == node.attr().end())
      return corrupt("T2", "{} without its attribute {}", node.op(), expected.attribute);
    if (found->second.value_case() != expected.type)
      return corrupt("T2", "attribute {} of {} is of the wrong type", expected.attribute, node.op());
  }
  return node.op() == "Const" ? check_const(node) : Status{};
}

/// The node that an input names: "^node", "node", "node:1" and "node:output:1"
/// all name `node`.
std::string_view input_node(std::string_view input) {
  if (input.starts_with('^')) input.remove_prefix(1);
  return input.substr(0, input.find(':'));
}

/// The nodes of the graph or of one function body, whose arguments are
/// `arguments`.
template <class Nodes>
Status check_nodes(const Nodes& nodes, const tensorflow::OpDef* signature) {
  Index index;
  const size_t arguments = signature ? static_cast<size_t>(signature->input_arg_size()) : 0;
  const auto add = [&](std::string_view name) {
    return !name.empty() && index.emplace(name, index.size()).second;
  };
  for (size_t i = 0; i < arguments; ++i)
    if (!add(signature->input_arg(static_cast<int>(i)).name()))
      return corrupt("T2", "two arguments are named '{}'", signature->input_arg(static_cast<int>(i)).name());
  for (const NodeDef& node : nodes)
    if (!add(node.name())) return corrupt("T2", "two nodes are named '{}'", node.name());

  Edges depends(index.size());
  size_t item = arguments;
  for (const NodeDef& node : nodes) {
    if (auto fine = check_attributes(node); !fine.ok())
      return std::move(fine).error().at("node " + node.name());
    for (const std::string& input : node.input()) {
      const auto found = index.find(input_node(input));
      if (found == index.end())
        return corrupt("T2", "input '{}' of node {} names no node", input, node.name());
      const bool closes_loop = found->second >= arguments &&
                               nodes[static_cast<int>(found->second - arguments)].op() == "NextIteration";
      if (!closes_loop) depends[item].push_back(found->second);
    }
    ++item;
  }
  if (const auto cycle = on_cycle(depends); cycle && *cycle >= arguments)
    return corrupt("T2", "node {} depends on itself", nodes[static_cast<int>(*cycle - arguments)].name());
  return {};
}

/// Calls `visit` with the name of each function that a node refers to.
template <class Visit>
void for_each_call(const NodeDef& node, Visit visit) {
  for (const auto& [key, value] : node.attr()) {
    if (value.has_func()) visit(value.func().name());
    for (const auto& function : value.list().func()) visit(function.name());
  }
}

Status check_library(const tensorflow::GraphDef& graph) {
  Index index;
  for (const auto& function : graph.library().function())
    if (!index.emplace(function.signature().name(), index.size()).second)
      return corrupt("T2", "two functions are named '{}'", function.signature().name());
  std::string unknown;
  Edges depends(index.size());
  const auto visit = [&](const NodeDef& node, std::vector<size_t>* edges) {
    const auto add = [&](const std::string& name) {
      const auto found = index.find(name);
      if (found == index.end())
        unknown = name;
      else if (edges)
        edges->push_back(found->second);
    };
    for_each_call(node, add);
    if (index.contains(node.op())) add(node.op());  // a function called by its name
  };
  for (const NodeDef& node : graph.node()) visit(node, nullptr);
  for (int i = 0; i < graph.library().function_size(); ++i)
    for (const NodeDef& node : graph.library().function(i).node_def())
      visit(node, &depends[static_cast<size_t>(i)]);
  if (!unknown.empty()) return corrupt("T2", "function '{}' is called, but not in the library", unknown);
  if (const auto cycle = on_cycle(depends))
    return corrupt("T2", "function '{}' calls itself",
                   graph.library().function(static_cast<int>(*cycle)).signature().name());
  return {};
}

Status check_objects(const tensorflow::SavedObjectGraph& objects) {
  const auto known = [&](int id) { return id >= 0 && id < objects.nodes_size(); };
  for (const auto& object : objects.nodes())
    for (const auto& edge : object.children())
      if (!known(edge.node_id()))
        return corrupt("T2", "edge '{}' of the object graph leads to no node", edge.local_name());
  for (const auto& [name, function] : objects.concrete_functions())
    for (const int id : function.bound_inputs())
      if (!known(id))
        return corrupt("T2", "function '{}' is bound to object {}, which does not exist", name, id);
  return {};
}

Status check_graph(const tensorflow::MetaGraphDef& meta) {
  TANDEM_CHECK(check_nodes(meta.graph_def().node(), nullptr));
  for (const auto& function : meta.graph_def().library().function())
    if (auto fine = check_nodes(function.node_def(), &function.signature()); !fine.ok())
      return std::move(fine).error().at("function " + function.signature().name());
  TANDEM_CHECK(check_library(meta.graph_def()));
  return check_objects(meta.object_graph_def());
}

}  // namespace

Result<tensorflow::SavedModel> parse_saved_model(std::string_view bytes) {
  if (bytes.size() > kMaxSavedModelBytes)
    return corrupt("T1", "the file has {} bytes, the limit is {}", bytes.size(), kMaxSavedModelBytes);
  tensorflow::SavedModel model;
  if (!parse_quietly(model, bytes))
    return corrupt("T1", "the {} bytes are no SavedModel message", bytes.size())
        .because("cut short, or nested too deeply");
  if (model.meta_graphs_size() == 0)
    return corrupt("T1", "the SavedModel has no meta graph").because("cut short?");
  return model;
}

Status check(const tensorflow::SavedModel& model) {
  for (const auto& meta : model.meta_graphs()) TANDEM_CHECK(check_graph(meta));
  return {};
}

}  // namespace tandem
