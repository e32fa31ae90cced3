#include "formats/tensor_bundle/object_graph.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>

#include "formats/proto/quiet_parse.h"
#include "formats/tensor_bundle/coding.h"
#include "formats/tensor_bundle/tensor_bundle.h"
#include "tensorflow/core/protobuf/trackable_object_graph.pb.h"

namespace tandem {
namespace {

using tensorflow::TrackableObjectGraph;
using Edge = TrackableObjectGraph::TrackableObject::ObjectReference;

constexpr std::string_view kValueAttribute = "VARIABLE_VALUE";
constexpr std::array<std::string_view, 2> kModelRoots{"model", "lm_head"};
constexpr std::array<std::string_view, 3> kLists{"variables", "trainable_variables",
                                                 "non_trainable_variables"};
constexpr size_t kMaxNameBytes = 4096;              // of a whole path
constexpr size_t kMaxNamesTogether = 256ull << 20;  // shared parents let a small graph claim many long names

Status check_edges(const TrackableObjectGraph& graph) {
  if (graph.nodes_size() == 0) return corrupt("T4", "the object graph has no root");
  for (const auto& node : graph.nodes())
    for (const Edge& edge : node.children())
      if (edge.node_id() < 0 || edge.node_id() >= graph.nodes_size())
        return corrupt("T4", "edge '{}' of the object graph leads to node {} of {}",
                       printable(edge.local_name()), edge.node_id(), graph.nodes_size());
  return {};
}

std::optional<int> child(const TrackableObjectGraph& graph, int node, std::string_view name) {
  for (const Edge& edge : graph.nodes(node).children())
    if (edge.local_name() == name) return edge.node_id();
  return std::nullopt;
}

bool is_model_root(const TrackableObjectGraph& graph, int node) {
  const auto model = child(graph, node, "model");
  return model && child(graph, *model, "layers");
}

int model_root(const TrackableObjectGraph& graph) {
  if (is_model_root(graph, 0)) return 0;
  std::vector<int> found;
  for (const Edge& edge : graph.nodes(0).children())
    if (is_model_root(graph, edge.node_id())) found.push_back(edge.node_id());
  return found.size() == 1 ? found.front() : 0;
}

bool contains(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Breadth-first walks that give every node one path: where it was first seen.
class Walk {
 public:
  explicit Walk(const TrackableObjectGraph& graph)
      : graph_(graph), steps_(static_cast<size_t>(graph.nodes_size())) {}

  /// Walks on from `start` (a root: its own path is empty) over the edges that `first` lets out of it, and
  /// all edges below.
  void from(int start, const std::function<bool(const std::string&)>& first) {
    std::vector<int> queue;
    visit_children(start, true, first, queue);
    for (size_t i = 0; i < queue.size(); ++i) visit_children(queue[i], false, first, queue);
  }

  bool reached(int node) const { return steps_[static_cast<size_t>(node)].edge != nullptr; }

  /// "model/layers/0", or nothing for a path that is too long to be a name.
  std::optional<std::string> path(int node) const {
    std::vector<const std::string*> names;
    size_t size = 0;
    for (const Step* step = &steps_[static_cast<size_t>(node)]; step->edge;
         step = &steps_[static_cast<size_t>(step->parent)]) {
      names.push_back(&step->edge->local_name());
      size += names.back()->size() + 1;
      if (size > kMaxNameBytes) return std::nullopt;
      if (step->starts) break;
    }
    std::string text;
    for (auto name = names.rbegin(); name != names.rend(); ++name) text += (text.empty() ? "" : "/") + **name;
    return text;
  }

 private:
  struct Step {
    const Edge* edge = nullptr;  ///< into the node, nullptr: not reached
    int parent = 0;
    bool starts = false;  ///< the parent is the start of a walk, whose own name does not count
  };

  void visit_children(int node, bool starts, const std::function<bool(const std::string&)>& first,
                      std::vector<int>& queue) {
    for (const Edge& edge : graph_.nodes(node).children()) {
      Step& step = steps_[static_cast<size_t>(edge.node_id())];
      if (step.edge || (starts && !first(edge.local_name()))) continue;
      step = {&edge, node, starts};
      queue.push_back(edge.node_id());
    }
  }

  const TrackableObjectGraph& graph_;
  std::vector<Step> steps_;
};

}  // namespace

Result<std::map<std::string, std::vector<std::string>>> names_by_key(const std::string& bytes) {
  TrackableObjectGraph graph;
  if (!parse_quietly(graph, bytes)) return corrupt("T4", "the object graph is no TrackableObjectGraph");
  TANDEM_CHECK(check_edges(graph));
  const int root = model_root(graph);
  Walk walk(graph);
  walk.from(root, [](const std::string& name) { return contains(kModelRoots, name); });
  walk.from(root, [](const std::string& name) { return !contains(kLists, name); });
  walk.from(root, [](const std::string&) { return true; });
  walk.from(0, [](const std::string&) { return true; });

  // Every edge into a node with a value is a name of it: the path of the edge's start, and the edge's own.
  std::vector<std::vector<std::string>> names(static_cast<size_t>(graph.nodes_size()));
  std::vector<std::string> keys(static_cast<size_t>(graph.nodes_size()));
  size_t together = 0;
  const auto too_many = [&](const std::string& name) {
    return (together += name.size()) > kMaxNamesTogether;
  };
  for (int node = 0; node < graph.nodes_size(); ++node)
    for (const auto& attribute : graph.nodes(node).attributes())
      if (attribute.name() == kValueAttribute) keys[static_cast<size_t>(node)] = attribute.checkpoint_key();
  for (int node = 0; node < graph.nodes_size(); ++node) {
    if (node != 0 && !walk.reached(node)) continue;
    std::optional<std::string> parent;
    for (const Edge& edge : graph.nodes(node).children()) {
      const auto target = static_cast<size_t>(edge.node_id());
      if (keys[target].empty()) continue;
      if (!parent) parent = node == root ? std::string() : walk.path(node);
      if (!parent) break;
      std::string name = parent->empty() ? edge.local_name() : *parent + "/" + edge.local_name();
      if (too_many(name))
        return corrupt("T4", "the names in the object graph are longer than {} bytes together",
                       kMaxNamesTogether);
      names[target].push_back(std::move(name));
    }
  }

  std::map<std::string, std::vector<std::string>> by_key;
  for (int node = 0; node < graph.nodes_size(); ++node) {
    const auto at = static_cast<size_t>(node);
    if (keys[at].empty() || !walk.reached(node)) continue;
    const auto chosen = walk.path(node);
    if (!chosen) continue;
    if (too_many(*chosen))
      return corrupt("T4", "the names in the object graph are longer than {} bytes together",
                     kMaxNamesTogether);
    auto& list = by_key[keys[at]];
    for (std::string& name : names[at])
      if (name != *chosen) list.push_back(std::move(name));
    list.insert(list.begin(), *chosen);
  }
  return by_key;
}

std::string object_graph(const std::vector<TrackedVariable>& variables) {
  TrackableObjectGraph graph;
  graph.add_nodes();
  std::map<std::string, int> nodes;  // by path
  for (const TrackedVariable& variable : variables) {
    int node = 0;
    for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
      end = variable.path.find('/', begin);
      const auto [known, is_new] = nodes.emplace(variable.path.substr(0, end), graph.nodes_size());
      if (is_new) {
        Edge* edge = graph.mutable_nodes(node)->add_children();
        edge->set_node_id(known->second);
        edge->set_local_name(variable.path.substr(begin, end == std::string::npos ? end : end - begin));
        graph.add_nodes();
      }
      node = known->second;
    }
    auto* attribute = graph.mutable_nodes(node)->add_attributes();
    attribute->set_name(std::string(kValueAttribute));
    attribute->set_full_name(variable.path);
    attribute->set_checkpoint_key(variable.key);
  }
  if (!variables.empty())
    for (auto& node : *graph.mutable_nodes()) node.mutable_has_checkpoint_values()->set_value(true);
  std::string bytes;
  graph.SerializeToString(&bytes);
  return bytes;
}

std::string value_key(std::string_view path) {
  std::string key;
  for (const char c : path) key += c == '.' ? ".." : std::string(1, c);
  return key.append(kValueSuffix);
}

}  // namespace tandem
