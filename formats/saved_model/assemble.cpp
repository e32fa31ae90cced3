#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <set>
#include <utility>

#include "formats/saved_model/entry.h"
#include "formats/saved_model/inline.h"
#include "formats/saved_model/node_builder.h"
#include "formats/saved_model/object_tree.h"
#include "formats/saved_model/saved_model.h"
#include "formats/saved_model/spec_check.h"
#include "formats/tensor_bundle/tensor_bundle.h"

namespace tandem {
namespace {

using tensorflow::AttrValue;
using tensorflow::DataType;
using tensorflow::MetaGraphDef;

// The graph's age. Semantics are those of this producer wherever the file runs,
// so it is the age of the oldest TensorFlow that we promise (2.12), not ours.
constexpr int kGraphProducer = 1395;
constexpr int kGraphMinConsumer = 12;
constexpr const char* kTensorflowVersion = "2.12.0";

AttrValue strings_attr(const std::vector<std::string>& texts) {
  AttrValue value;
  value.mutable_tensor()->set_dtype(tensorflow::DT_STRING);
  set_shape(value.mutable_tensor()->mutable_tensor_shape(), std::vector<size_t>{texts.size()});
  for (const std::string& text : texts) value.mutable_tensor()->add_string_val(text);
  return value;
}

AttrValue scalar_string_attr(const std::string& text) {
  AttrValue value = strings_attr({text});
  value.mutable_tensor()->mutable_tensor_shape()->Clear();
  return value;
}

/// The nodes at top level: what sessions and V1 loaders run, and what
/// signatures are called through.
class TopLevel {
 public:
  TopLevel(const SavedModelSpec& spec, MetaGraphDef& graph) : spec_(spec), graph_(graph) {}

  void add(const std::string& name, const std::string& op, const Inputs& inputs,
           const Attributes& attributes) {
    set_node(graph_.mutable_graph_def()->add_node(), name, op, inputs, attributes);
  }

  void add_variables() {
    for (const SavedVariable& variable : spec_.variables)
      add(variable.path, "VarHandleOp", {},
          {{"dtype", type_attr(to_tensorflow(variable.dtype))},
           {"shape", shape_attr(variable.shape)},
           {"shared_name", string_attr(variable.path)}});
  }

  /// Where TensorFlow 1's freezing looks for a variable's value.
  void add_reads() {
    for (const SavedVariable& variable : spec_.variables)
      add(variable.path + "/Read/ReadVariableOp", "ReadVariableOp", {variable.path},
          {{"dtype", type_attr(to_tensorflow(variable.dtype))}});
  }

  void add_assets() {
    for (size_t i = 0; i < spec_.assets.size(); ++i) {
      const std::string node = fmt::format("asset/{}", i);
      add(node, "Const", {},
          {{"dtype", type_attr(tensorflow::DT_STRING)}, {"value", scalar_string_attr(spec_.assets[i].name)}});
      auto* asset = graph_.add_asset_file_def();
      asset->mutable_tensor_info()->set_name(node + ":0");
      asset->set_filename(spec_.assets[i].name);
    }
  }

  Status add_signature(const std::string& key, const SavedFunction& function, const std::string& entry) {
    tensorflow::SignatureDef& signature = (*graph_.mutable_signature_def())[key];
    signature.set_method_name("tensorflow/serving/predict");
    Inputs inputs;
    std::vector<DataType> input_types, output_types;
    for (const TensorSpec& input : function.inputs) {
      const std::string placeholder = key + "_" + input.name;
      add(placeholder, "Placeholder", {},
          {{"dtype", type_attr(to_tensorflow(input.dtype))}, {"shape", shape_attr(input.shape)}});
      (*signature.mutable_inputs())[input.name] = tensor_info(placeholder + ":0", input);
      inputs.push_back(placeholder);
      input_types.push_back(to_tensorflow(input.dtype));
    }
    for (const size_t capture : function.captures) {
      inputs.push_back(spec_.variables[capture].path);
      input_types.push_back(tensorflow::DT_RESOURCE);
    }
    const std::string call = "signature/" + key;
    if (function.inlined) {
      TANDEM_TRY(const Inputs outputs, inline_function(*graph_.mutable_graph_def(), entry, inputs, key));
      for (size_t i = 0; i < outputs.size(); ++i) {
        const TensorSpec& output = function.outputs[i];
        const std::string name = call + "/" + output.name;
        add(name, "Identity", {outputs[i]}, {{"T", type_attr(to_tensorflow(output.dtype))}});
        (*signature.mutable_outputs())[output.name] = tensor_info(name + ":0", output);
      }
      return {};
    }
    for (const TensorSpec& output : function.outputs) {
      (*signature.mutable_outputs())[output.name] =
          tensor_info(fmt::format("{}:{}", call, output_types.size()), output);
      output_types.push_back(to_tensorflow(output.dtype));
    }
    add(call, "StatefulPartitionedCall", inputs,
        {{"Tin", types_attr(input_types)}, {"Tout", types_attr(output_types)}, {"f", function_attr(entry)}});
    return {};
  }

  /// Restore and save. Without restore nodes the C API would load variables
  /// that were never set.
  void add_saver() {
    if (spec_.variables.empty()) return;
    std::vector<std::string> keys;
    std::vector<DataType> types;
    for (const SavedVariable& variable : spec_.variables) {
      keys.push_back(value_key(variable.path));
      types.push_back(to_tensorflow(variable.dtype));
    }
    const Attributes string_dtype{{"dtype", type_attr(tensorflow::DT_STRING)}};
    add("saver/filename", "Placeholder", {}, {string_dtype[0], {"shape", shape_attr(Shape{})}});
    add("saver/keys", "Const", {}, {string_dtype[0], {"value", strings_attr(keys)}});
    add("saver/slices", "Const", {},
        {string_dtype[0], {"value", strings_attr(std::vector<std::string>(keys.size()))}});
    const Inputs where{"saver/filename", "saver/keys", "saver/slices"};

    add("saver/RestoreV2", "RestoreV2", where, {{"dtypes", types_attr(types)}});
    Inputs assigned, values = where;
    for (size_t i = 0; i < keys.size(); ++i) {
      const std::string assign = fmt::format("saver/assign/{}", i), read = fmt::format("saver/read/{}", i);
      const std::string& handle = spec_.variables[i].path;
      add(assign, "AssignVariableOp", {handle, fmt::format("saver/RestoreV2:{}", i)},
          {{"dtype", type_attr(types[i])}});
      add(read, "ReadVariableOp", {handle}, {{"dtype", type_attr(types[i])}});
      assigned.push_back("^" + assign);
      values.push_back(read);
    }
    add("saver/restore_all", "NoOp", assigned, {});
    add("saver/SaveV2", "SaveV2", values, {{"dtypes", types_attr(types)}});
    add("saver/saved", "Identity", {"saver/filename", "^saver/SaveV2"},
        {{"T", type_attr(tensorflow::DT_STRING)}});

    auto* saver = graph_.mutable_saver_def();
    saver->set_filename_tensor_name("saver/filename:0");
    saver->set_restore_op_name("saver/restore_all");
    saver->set_save_tensor_name("saver/saved:0");
    saver->set_version(tensorflow::SaverDef::V2);
  }

 private:
  static tensorflow::TensorInfo tensor_info(const std::string& tensor, const TensorSpec& spec) {
    tensorflow::TensorInfo info;
    info.set_name(tensor);
    info.set_dtype(to_tensorflow(spec.dtype));
    set_shape(info.mutable_tensor_shape(), spec.shape);
    return info;
  }

  const SavedModelSpec& spec_;
  MetaGraphDef& graph_;
};

Status check_node_names(const MetaGraphDef& graph) {
  std::set<std::string_view> names;
  for (const auto& node : graph.graph_def().node())
    if (!names.insert(node.name()).second)
      return invalid("saved_model_c7", "two nodes of the graph are named '{}'", node.name());
  return {};
}

}  // namespace

Result<tensorflow::SavedModel> assemble(SavedModelSpec spec) {
  TANDEM_CHECK(check(spec));
  tensorflow::SavedModel model;
  model.set_saved_model_schema_version(1);
  MetaGraphDef& graph = *model.add_meta_graphs();
  auto* info = graph.mutable_meta_info_def();
  info->add_tags("serve");
  info->set_tensorflow_version(kTensorflowVersion);
  info->set_stripped_default_attrs(true);

  graph.mutable_graph_def()->mutable_versions()->set_producer(kGraphProducer);
  graph.mutable_graph_def()->mutable_versions()->set_min_consumer(kGraphMinConsumer);
  auto* library = graph.mutable_graph_def()->mutable_library();
  for (auto& function : spec.library) *library->add_function() = std::move(function);
  EntryNames entries;
  for (const auto& [key, signature] : spec.signatures) {
    // Where Python refuses a dtype it names this function and the argument's number only: so the function
    // names its arguments.
    std::string name = "__inference_" + key;
    for (const TensorSpec& input : signature.inputs) name += "_" + input.name;
    entries.signatures[key] = fmt::format("{}_{}", name, library->function_size());
    *library->add_function() =
        entry_function(entries.signatures[key], signature, signature.inputs, spec.variables);
  }
  for (const auto& [name, method] : spec.methods) {
    entries.methods[name] = fmt::format("__inference_{}_{}", name, library->function_size());
    *library->add_function() =
        entry_function(entries.methods[name], method, method_parameters(method.inputs), spec.variables);
  }

  TopLevel nodes(spec, graph);
  nodes.add_variables();
  const auto is_inlined = [](const auto& entry) { return entry.second.inlined; };
  if (std::ranges::any_of(spec.signatures, is_inlined)) nodes.add_reads();
  nodes.add_assets();
  for (const auto& [key, signature] : spec.signatures)
    TANDEM_CHECK(nodes.add_signature(key, signature, entries.signatures.at(key)));
  nodes.add_saver();
  TANDEM_CHECK(check_node_names(graph));
  *graph.mutable_object_graph_def() = object_tree(spec, entries);
  if (model.ByteSizeLong() > kMaxSavedModelBytes)
    return invalid("saved_model_c5", "saved_model.pb has {} bytes, the limit is {}", model.ByteSizeLong(),
                   kMaxSavedModelBytes);
  return model;
}

std::string checkpoint_object_graph(const std::vector<SavedVariable>& variables) {
  std::vector<TrackedVariable> tracked;
  for (const SavedVariable& variable : variables)
    tracked.push_back({variable.path, value_key(variable.path)});
  return object_graph(tracked);
}

Result<std::string> saved_model_bytes(SavedModelSpec spec) {
  TANDEM_TRY(const tensorflow::SavedModel model, assemble(std::move(spec)));
  // All the room that it needs, before: a stream that cannot grow any more writes past its end in its
  // destructor.
  constexpr int kOutside = 64;  // what the outermost message has besides its one graph
  std::string bytes(static_cast<size_t>(model.meta_graphs(0).GetCachedSize() + kOutside), '\0');
  google::protobuf::io::ArrayOutputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  {
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);  // maps in one order: the same model is the same bytes
    model.SerializeWithCachedSizes(&coded);
    if (coded.HadError()) return bug("", "saved_model.pb is larger than {} bytes", bytes.size());
  }
  bytes.resize(static_cast<size_t>(stream.ByteCount()));
  return bytes;
}

Status write_saved_model(const FileSystem& files, const std::string& folder, std::string_view bytes,
                         const std::vector<SavedAsset>& assets) {
  TANDEM_CHECK(write_text(files, join(folder, "saved_model.pb"), bytes));
  TANDEM_CHECK(files.make_directories(join(folder, "variables")));
  if (assets.empty()) return {};
  const std::string inside = join(folder, "assets");
  TANDEM_CHECK(files.make_directories(inside));
  for (const SavedAsset& asset : assets)
    TANDEM_CHECK(write_text(files, join(inside, asset.name), asset.content));
  return {};
}

Status write_saved_model(const FileSystem& files, const std::string& folder, SavedModelSpec spec) {
  const std::vector<SavedAsset> assets = std::exchange(spec.assets, {});
  for (const SavedAsset& asset : assets) spec.assets.push_back({asset.name, {}});
  TANDEM_TRY(const std::string bytes, saved_model_bytes(std::move(spec)));
  return write_saved_model(files, folder, bytes, assets);
}

}  // namespace tandem
