#include "formats/saved_model/object_tree.h"

#include "formats/saved_model/entry.h"
#include "formats/saved_model/node_builder.h"
#include "formats/saved_model/spec_check.h"

namespace tandem {
namespace {

using tensorflow::SavedObjectGraph;

class Tree {
 public:
  explicit Tree(SavedObjectGraph& graph) : graph_(graph) {}

  int add_node() {
    graph_.add_nodes();
    return graph_.nodes_size() - 1;
  }
  tensorflow::SavedObject* node(int id) { return graph_.mutable_nodes(id); }

  /// An object of one of TensorFlow's built-in kinds.
  int add_object(const char* identifier) {
    const int id = add_node();
    auto* object = node(id)->mutable_user_object();
    object->set_identifier(identifier);
    object->mutable_version()->set_producer(1);
    object->mutable_version()->set_min_consumer(1);
    return id;
  }

  void add_edge(int from, const std::string& name, int to) {
    auto* edge = node(from)->add_children();
    edge->set_node_id(to);
    edge->set_local_name(name);
  }

  /// Hangs `id` at a path below the root, with an object for each component
  /// before the last.
  void place(const std::string& path, int id) {
    int parent = 0;
    for (size_t begin = 0;;) {
      const size_t slash = path.find('/', begin);
      if (slash == path.npos) return add_edge(parent, path.substr(begin), id);
      const auto [known, is_new] = objects_.emplace(path.substr(0, slash), 0);
      if (is_new) {
        known->second = add_object("_generic_user_object");
        add_edge(parent, path.substr(begin, slash - begin), known->second);
      }
      parent = known->second;
      begin = slash + 1;
    }
  }

 private:
  SavedObjectGraph& graph_;
  std::map<std::string, int> objects_;  // by path
};

void set_variable(tensorflow::SavedVariable* proto, const SavedVariable& variable) {
  proto->set_name(variable.path);
  proto->set_dtype(to_tensorflow(variable.dtype));
  set_shape(proto->mutable_shape(), variable.shape);
  proto->set_trainable(variable.trainable);
}

/// FullArgSpec with parameters that may be given by position or by keyword.
/// TensorFlow insists on all seven fields.
void set_function_spec(tensorflow::FunctionSpec* proto, const std::vector<TensorSpec>& parameters) {
  std::vector<tensorflow::StructuredValue> names, specs;
  for (const TensorSpec& parameter : parameters) {
    names.push_back(text_value(parameter.name));
    specs.push_back(spec_value(parameter));
  }
  auto* arguments = proto->mutable_fullargspec()->mutable_named_tuple_value();
  arguments->set_name("FullArgSpec");
  const auto add = [&](const char* key, const tensorflow::StructuredValue& value) {
    auto* pair = arguments->add_values();
    pair->set_key(key);
    *pair->mutable_value() = value;
  };
  add("args", list_value(names));
  add("varargs", none_value());
  add("varkw", none_value());
  add("defaults", none_value());
  add("kwonlyargs", list_value({}));
  add("kwonlydefaults", none_value());
  add("annotations", dict_value({}));
  *proto->mutable_input_signature() = tuple_value(specs);
}

std::vector<tensorflow::StructuredValue> spec_values(const std::vector<TensorSpec>& specs) {
  std::vector<tensorflow::StructuredValue> values;
  for (const TensorSpec& spec : specs) values.push_back(spec_value(spec));
  return values;
}

}  // namespace

SavedObjectGraph object_tree(const SavedModelSpec& spec, const EntryNames& entries) {
  SavedObjectGraph graph;
  Tree tree(graph);
  const int root = tree.add_object("_generic_user_object");

  std::vector<int> variables;  // node ids
  for (const SavedVariable& variable : spec.variables) {
    variables.push_back(tree.add_node());
    set_variable(tree.node(variables.back())->mutable_variable(), variable);
  }
  for (size_t i = 0; i < variables.size(); ++i) tree.place(spec.variables[i].path, variables[i]);

  const int all = tree.add_object("trackable_list_wrapper");
  const int trainable = tree.add_object("trackable_list_wrapper");
  tree.add_edge(root, "variables", all);
  tree.add_edge(root, "trainable_variables", trainable);
  for (size_t i = 0, next = 0; i < variables.size(); ++i) {
    tree.add_edge(all, std::to_string(i), variables[i]);
    if (spec.variables[i].trainable) tree.add_edge(trainable, std::to_string(next++), variables[i]);
  }

  const auto add_concrete = [&](const std::string& name,
                                const SavedFunction& function) -> tensorflow::SavedConcreteFunction& {
    auto& concrete = (*graph.mutable_concrete_functions())[name];
    for (const size_t capture : function.captures) concrete.add_bound_inputs(variables[capture]);
    return concrete;
  };
  const int signatures = tree.add_object("signature_map");
  tree.add_edge(root, "signatures", signatures);
  for (const auto& [key, signature] : spec.signatures) {
    const std::string& function = entries.signatures.at(key);
    auto& concrete = add_concrete(function, signature);
    *concrete.mutable_canonicalized_input_signature() =
        tuple_value({tuple_value({}), dict_value(signature.inputs)});
    *concrete.mutable_output_signature() = dict_value(signature.outputs);
    const int id = tree.add_node();
    auto* bare = tree.node(id)->mutable_bare_concrete_function();
    bare->set_concrete_function_name(function);
    for (const TensorSpec& input : signature.inputs) bare->add_argument_keywords(input.name);
    bare->set_allowed_positional_arguments(signature.inputs.size() == 1 ? 1 : 0);
    tree.add_edge(signatures, key, id);
  }

  for (const auto& [name, method] : spec.methods) {
    const std::vector<TensorSpec> parameters = method_parameters(method.inputs);
    const std::string& function = entries.methods.at(name);
    auto& concrete = add_concrete(function, method);
    *concrete.mutable_canonicalized_input_signature() =
        tuple_value({tuple_value(spec_values(parameters)), dict_value({})});
    *concrete.mutable_output_signature() =
        method.outputs.size() == 1 ? spec_value(method.outputs[0]) : dict_value(method.outputs);
    const int id = tree.add_node();
    tree.node(id)->mutable_function()->add_concrete_functions(function);
    set_function_spec(tree.node(id)->mutable_function()->mutable_function_spec(), parameters);
    tree.add_edge(root, name, id);
  }

  for (size_t i = 0; i < spec.assets.size(); ++i) {
    const int id = tree.add_node();
    tree.node(id)->mutable_asset()->set_asset_file_def_index(static_cast<int>(i));
    tree.add_edge(root, asset_attribute(spec.assets[i].name), id);
  }
  return graph;
}

}  // namespace tandem
