#include "engines/tf/part_graph.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "lower/tf/function_builder.h"

namespace tandem {
namespace {

using tensorflow::FunctionDef;
using tensorflow::NodeDef;

/// Where a value is: the ref of a node's output in its function, and its tensorflow.DataType.
struct Place {
  std::string ref;
  int dtype = 0;
};
using Places = std::map<std::string, Place, std::less<>>;

/// "node:output:0" -> "node", "^node" -> "node"; an argument's ref is its bare name.
std::string node_of(std::string_view ref) {
  if (ref.starts_with('^')) ref.remove_prefix(1);
  return std::string(ref.substr(0, ref.find(':')));
}

/// What the function says of its values, in order; empty if it says nothing.
std::vector<std::pair<std::string, Place>> listed_places(const FunctionDef& function) {
  std::vector<std::pair<std::string, Place>> places;
  std::set<std::string> names;
  const tensorflow::AttrValue* list = nullptr;
  for (const auto& argument : function.signature().input_arg()) names.insert(argument.name());
  for (const NodeDef& node : function.node_def()) {
    names.insert(node.name());
    if (const auto found = node.attr().find(std::string(kValuesAttribute)); found != node.attr().end())
      list = &found->second;
  }
  if (!list) return places;
  for (const std::string& text : list->list().s()) {
    const size_t first = text.find(' '), second = text.find(' ', first + 1);
    if (first == text.npos || second == text.npos) continue;
    Place place{text.substr(second + 1), 0};
    std::from_chars(text.data() + first + 1, text.data() + second, place.dtype);
    if (!names.contains(node_of(place.ref))) return {};  // written again by something that renamed nodes
    places.emplace_back(text.substr(0, first), std::move(place));
  }
  return places;
}

Places places_of(const FunctionDef& function) {
  const auto listed = listed_places(function);
  return {listed.begin(), listed.end()};
}

/// The function's own outputs.
Places results_of(const FunctionDef& function) {
  Places places;
  for (const auto& output : function.signature().output_arg())
    if (const auto ref = function.ret().find(output.name()); ref != function.ret().end())
      places[output.name()] = {ref->second, output.type()};
  return places;
}

const std::string* called_function(const NodeDef& node) {
  if (node.op() != "PartitionedCall" && node.op() != "StatefulPartitionedCall") return nullptr;
  const auto function = node.attr().find("f");
  return function == node.attr().end() ? nullptr : &function->second.func().name();
}

/// A function, and for each of its arguments that is a variable's handle, the variable's node in the main
/// graph.
struct Reached {
  const FunctionDef* function = nullptr;
  std::map<std::string, std::string> handles;
};

class Finder {
 public:
  explicit Finder(const tensorflow::MetaGraphDef& model) : model_(model) {
    for (const FunctionDef& function : model.graph_def().library().function())
      functions_[function.signature().name()] = &function;
    for (const NodeDef& node : model.graph_def().node()) nodes_[node.name()] = &node;
  }

  /// The function with values behind a signature: the first of a chain of calls, each of which is its
  /// function's only one.
  Result<Reached> entry(const std::string& signature) const {
    const auto definition = model_.signature_def().find(signature);
    if (definition == model_.signature_def().end() || definition->second.outputs().empty())
      return invalid("tf_c3", "no signature '{}'", signature);
    const std::string tensor = definition->second.outputs().begin()->second.name();
    const auto node = nodes_.find(node_of(tensor));
    const std::string* name = node == nodes_.end() ? nullptr : called_function(*node->second);
    if (!name) return no_values(signature);
    TANDEM_TRY(Reached reached, step(*node->second, *name, {}, signature));
    for (int depth = 0; places_of(*reached.function).empty(); ++depth) {
      const NodeDef* call = only_call(*reached.function, false);
      if (!call || depth > 8) return no_values(signature);
      TANDEM_TRY(reached, step(*call, *called_function(*call), reached.handles, signature));
    }
    return reached;
  }

  /// The only call to a function with values.
  const NodeDef* block_call(const FunctionDef& entry) const { return only_call(entry, true); }

  /// The function that a call reaches. `handles` belong to the caller; empty for the main graph.
  Result<Reached> step(const NodeDef& call, const std::string& name,
                       const std::map<std::string, std::string>& handles, const std::string& what) const {
    const auto function = functions_.find(name);
    if (function == functions_.end() || function->second->signature().input_arg_size() != call.input_size())
      return no_values(what);
    Reached reached{function->second, {}};
    for (int i = 0; i < call.input_size(); ++i) {
      const auto& argument = function->second->signature().input_arg(i);
      if (argument.type() != tensorflow::DT_RESOURCE) continue;
      const std::string source = node_of(call.input(i));
      const auto known = handles.find(source);
      if (known != handles.end())
        reached.handles[argument.name()] = known->second;
      else if (nodes_.contains(source))
        reached.handles[argument.name()] = source;
      else
        return no_values(what);
    }
    return reached;
  }

  static Error no_values(const std::string& what) {
    return unsupported("tf_c10", "the functions behind '{}' do not say where their values are", what)
        .because("only SavedModels that this version's convert wrote can be looked into");
  }

 private:
  const NodeDef* only_call(const FunctionDef& function, bool with_values) const {
    const NodeDef* only = nullptr;
    for (const NodeDef& node : function.node_def()) {
      const std::string* name = called_function(node);
      if (!name) continue;
      const auto called = functions_.find(*name);
      if (called == functions_.end()) continue;
      if (with_values && places_of(*called->second).empty()) continue;
      if (only) return nullptr;
      only = &node;
    }
    return only;
  }

  const tensorflow::MetaGraphDef& model_;
  std::map<std::string, const FunctionDef*> functions_;
  std::map<std::string, const NodeDef*> nodes_;
};

/// A copy of `function` that gives `outputs` (refs and dtypes), takes the refs in `given` as arguments
/// "given_NAME", and holds only what it needs for that.
struct Cut {
  FunctionDef function;
  std::vector<std::string> given;  ///< names whose arguments stand at the end, in this order
};
Cut cut(const FunctionDef& source, const std::string& name, const std::map<std::string, Place>& given,
        const std::vector<Place>& outputs) {
  std::map<std::string, std::string> replaced;  // ref -> name of what stands for it
  for (const auto& [value, place] : given) replaced[place.ref] = value;
  std::map<std::string, const NodeDef*> nodes;
  for (const NodeDef& node : source.node_def()) nodes[node.name()] = &node;

  std::set<std::string> needed_nodes, needed_arguments, needed_given;
  std::vector<std::string> open;
  for (const Place& output : outputs) open.push_back(output.ref);
  while (!open.empty()) {
    const std::string ref = std::move(open.back());
    open.pop_back();
    if (const auto other = replaced.find(ref); other != replaced.end()) {
      needed_given.insert(other->second);
      continue;
    }
    const std::string node = node_of(ref);
    const auto found = nodes.find(node);
    if (found == nodes.end()) {
      needed_arguments.insert(node);
      continue;
    }
    if (!needed_nodes.insert(node).second) continue;
    for (const std::string& input : found->second->input()) open.push_back(input);
  }

  Cut result;
  FunctionDef& function = result.function;
  function.mutable_signature()->set_name(name);
  for (int i = 0; i < source.signature().input_arg_size(); ++i) {
    const auto& argument = source.signature().input_arg(i);
    if (!needed_arguments.contains(argument.name())) continue;
    const int place = function.signature().input_arg_size();
    *function.mutable_signature()->add_input_arg() = argument;
    const auto attributes = source.arg_attr().find(static_cast<uint32_t>(i));
    if (attributes != source.arg_attr().end())
      (*function.mutable_arg_attr())[static_cast<uint32_t>(place)] = attributes->second;
  }
  for (const auto& [value, place] : given) {
    if (!needed_given.contains(value)) continue;
    auto* argument = function.mutable_signature()->add_input_arg();
    argument->set_name("given_" + std::to_string(result.given.size()));
    argument->set_type(static_cast<tensorflow::DataType>(place.dtype));
    replaced[place.ref] = argument->name();
    result.given.push_back(value);
  }
  const auto renamed = [&](const std::string& ref) {
    const auto other = replaced.find(ref);
    return other == replaced.end() ? ref : other->second;
  };
  for (const NodeDef& node : source.node_def()) {
    if (!needed_nodes.contains(node.name())) continue;
    NodeDef* copy = function.add_node_def();
    *copy = node;
    copy->mutable_attr()->erase(std::string(kValuesAttribute));
    for (std::string& input : *copy->mutable_input()) input = renamed(input);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    auto* output = function.mutable_signature()->add_output_arg();
    output->set_name(fmt::format("value_{}", i));
    output->set_type(static_cast<tensorflow::DataType>(outputs[i].dtype));
    (*function.mutable_ret())[output->name()] = renamed(outputs[i].ref);
  }
  for (const auto& [key, value] : source.attr())
    if (key != "_input_shapes") (*function.mutable_attr())[key] = value;
  function.mutable_signature()->set_is_stateful(true);
  return result;
}

void set_types(NodeDef& call, const std::string& function, const FunctionDef& called) {
  call.set_op("StatefulPartitionedCall");
  auto& attributes = *call.mutable_attr();
  attributes["f"].mutable_func()->set_name(function);
  auto* in = attributes["Tin"].mutable_list();
  auto* out = attributes["Tout"].mutable_list();
  in->clear_type();
  out->clear_type();
  for (const auto& argument : called.signature().input_arg()) in->add_type(argument.type());
  for (const auto& argument : called.signature().output_arg()) out->add_type(argument.type());
}

class Maker {
 public:
  Maker(const tensorflow::MetaGraphDef& model, const PartRequest& request)
      : finder_(model), request_(request) {}

  Result<PartGraph> make() && {
    TANDEM_TRY(const Reached entry, finder_.entry(request_.signature));
    Cut top;
    if (request_.scope == Scope::entry) {
      TANDEM_TRY(const auto outputs, outputs_in(*entry.function));
      top = cut(*entry.function, "tandem_part_entry", given_in(*entry.function, true), outputs);
    } else {
      TANDEM_TRY(top, around_block(*entry.function));
    }
    TANDEM_CHECK(call_from_graph(entry, top));
    *result_.graph.mutable_library()->add_function() = std::move(top.function);
    return std::move(result_);
  }

 private:
  Result<std::vector<Place>> outputs_in(const FunctionDef& function) const {
    Places places = places_of(function);
    if (request_.scope == Scope::entry) places.merge(results_of(function));
    std::vector<Place> outputs;
    for (const std::string& name : request_.outputs) {
      const auto place = places.find(name);
      if (place == places.end())
        return invalid("tf_c11", "no value '{}' behind '{}'", name, request_.signature);
      outputs.push_back(place->second);
    }
    return outputs;
  }

  /// The given names that `function` has, as values or as arguments.
  std::map<std::string, Place> given_in(const FunctionDef& function, bool arguments) const {
    std::map<std::string, Place> given;
    const Places places = places_of(function);
    for (const auto& [name, from] : request_.given) {
      if (const auto place = places.find(name); place != places.end()) given[name] = place->second;
      if (!arguments) continue;
      for (const auto& argument : function.signature().input_arg())
        if (argument.name() == name) given[name] = {name, argument.type()};
    }
    return given;
  }

  /// The entry, with its one call of a block replaced by a call of the block's part.
  Result<Cut> around_block(const FunctionDef& entry) {
    const NodeDef* call = finder_.block_call(entry);
    if (!call) return Finder::no_values(request_.signature);
    TANDEM_TRY(const Reached block,
               finder_.step(*call, *called_function(*call), all_handles(entry), request_.signature));
    TANDEM_TRY(const std::vector<Place> outputs, outputs_in(*block.function));
    const std::map<std::string, Place> given = given_in(*block.function, true);
    Cut inner = cut(*block.function, "tandem_part_block", given, outputs);

    // The call that reaches the part: what the block got, and what is given.
    FunctionDef around = entry;
    NodeDef* node = around.add_node_def();
    node->set_name("tandem_part_call");
    std::map<std::string, Place> passed;  // given to the block, by way of the entry
    for (const auto& argument : inner.function.signature().input_arg()) {
      const std::string& name = argument.name();
      const auto& arguments = block.function->signature().input_arg();
      const auto own =
          std::find_if(arguments.begin(), arguments.end(), [&](const auto& a) { return a.name() == name; });
      if (own != arguments.end()) node->add_input(call->input(static_cast<int>(own - arguments.begin())));
    }
    for (const std::string& name : inner.given) {
      node->add_input("passed_" + name);
      passed[name] = {"passed_" + name, given.at(name).dtype};
    }
    set_types(*node, "tandem_part_block", inner.function);
    std::vector<Place> results;
    for (size_t i = 0; i < outputs.size(); ++i)
      results.push_back({fmt::format("tandem_part_call:output:{}", i), outputs[i].dtype});
    // A name that is given may be needed twice: by the entry on its way, and by the block.
    std::map<std::string, Place> both = passed;
    for (const auto& [name, place] : given_in(entry, true)) both["entry " + name] = place;
    Cut outer = cut(around, "tandem_part_entry", both, results);
    for (std::string& name : outer.given)
      if (name.starts_with("entry ")) name = name.substr(6);
    *result_.graph.mutable_library()->add_function() = std::move(inner.function);
    return outer;
  }

  static std::map<std::string, std::string> all_handles(const FunctionDef& function) {
    std::map<std::string, std::string> handles;
    for (const auto& argument : function.signature().input_arg())
      if (argument.type() == tensorflow::DT_RESOURCE) handles[argument.name()] = argument.name();
    return handles;
  }

  /// Placeholders, and the call of the cut function.
  Status call_from_graph(const Reached& entry, const Cut& top) {
    NodeDef call;
    call.set_name("part");
    const auto& arguments = top.function.signature().input_arg();
    const int own = arguments.size() - static_cast<int>(top.given.size());
    for (int i = 0; i < own; ++i) {
      const auto handle = entry.handles.find(arguments[i].name());
      if (handle == entry.handles.end())
        return invalid("tf_c12", "input '{}' of {} is missing", arguments[i].name(), request_.signature);
      const std::string node = "handle/" + std::to_string(result_.handles.size());
      result_.handles[node] = handle->second;
      call.add_input(node);
    }
    for (size_t i = 0; i < top.given.size(); ++i) {
      const std::string& name = top.given[i];
      if (std::find(result_.feeds.begin(), result_.feeds.end(), name) == result_.feeds.end()) add_feed(name);
      call.add_input(
          in_type("given/" + name, request_.given.at(name), arguments[own + static_cast<int>(i)].type()));
    }
    set_types(call, "tandem_part_entry", top.function);
    *result_.graph.add_node() = std::move(call);
    return {};
  }

  /// The node that has a placeholder's value in the type that is computed with: a graph of 16 bits is given
  /// floats.
  std::string in_type(const std::string& node, int from, tensorflow::DataType to) {
    if (from == to) return node;
    const std::string name = fmt::format("{}/as_{}", node, static_cast<int>(to));
    for (const NodeDef& there : result_.graph.node())
      if (there.name() == name) return name;
    NodeDef* cast = result_.graph.add_node();
    cast->set_name(name);
    cast->set_op("Cast");
    cast->add_input(node);
    (*cast->mutable_attr())["SrcT"].set_type(static_cast<tensorflow::DataType>(from));
    (*cast->mutable_attr())["DstT"].set_type(to);
    return name;
  }

  void add_feed(const std::string& name) {
    NodeDef* node = result_.graph.add_node();
    node->set_name("given/" + name);
    node->set_op("Placeholder");
    (*node->mutable_attr())["dtype"].set_type(static_cast<tensorflow::DataType>(request_.given.at(name)));
    (*node->mutable_attr())["shape"].mutable_shape()->set_unknown_rank(true);
    result_.feeds.push_back(name);
  }

  Finder finder_;
  const PartRequest& request_;
  PartGraph result_;
};

}  // namespace

Result<EntryValues> entry_values(const tensorflow::MetaGraphDef& model, const std::string& signature) {
  const Finder finder(model);
  TANDEM_TRY(const Reached entry, finder.entry(signature));
  EntryValues found;
  for (const auto& [name, place] : listed_places(*entry.function))
    found.values.push_back({name, place.dtype, node_of(place.ref)});
  std::map<std::string, const NodeDef*> nodes;
  for (const NodeDef& node : entry.function->node_def()) nodes[node.name()] = &node;
  std::set<std::string> value_nodes;
  for (const EntryValue& value : found.values) value_nodes.insert(value.node);
  for (const auto& [name, place] : results_of(*entry.function)) {
    auto node = nodes.find(node_of(place.ref));
    while (node != nodes.end() && node->second->op() == "Identity" && !value_nodes.contains(node->first))
      node = nodes.find(node_of(node->second->input(0)));
    if (node != nodes.end()) found.results[name] = node->first;
  }
  return found;
}

Result<PartGraph> make_part_graph(const tensorflow::MetaGraphDef& model, const PartRequest& request) {
  if (request.outputs.empty()) return invalid("tf_c11", "no value is asked for");
  return Maker(model, request).make();
}

}  // namespace tandem
