// Writes a SavedModel with one variable, y = x * w, into the folder named on
// the command line, for saved_model_python_test.py.

#include <cstdio>
#include <cstring>

#include "formats/saved_model/node_builder.h"
#include "formats/tensor_bundle/tensor_bundle.h"

namespace tandem {
namespace {

/// y = input_ids * w + b, and z = attention_mask; sorted arguments, so
/// attention_mask comes first.
tensorflow::FunctionDef make_function() {
  tensorflow::FunctionDef function;
  auto* signature = function.mutable_signature();
  signature->set_name("__inference_forward_1");
  signature->set_is_stateful(true);
  const auto add_argument = [&](const char* name, tensorflow::DataType dtype) {
    signature->add_input_arg()->set_name(name);
    signature->mutable_input_arg(signature->input_arg_size() - 1)->set_type(dtype);
  };
  add_argument("attention_mask", tensorflow::DT_FLOAT);
  add_argument("input_ids", tensorflow::DT_FLOAT);
  add_argument("b", tensorflow::DT_RESOURCE);
  add_argument("w", tensorflow::DT_RESOURCE);
  const auto dtype = type_attr(tensorflow::DT_FLOAT);
  set_node(function.add_node_def(), "read_w", "ReadVariableOp", {"w"}, {{"dtype", dtype}});
  set_node(function.add_node_def(), "read_b", "ReadVariableOp", {"b"}, {{"dtype", dtype}});
  set_node(function.add_node_def(), "xw", "Mul", {"input_ids", "read_w:value:0"}, {{"T", dtype}});
  set_node(function.add_node_def(), "masked", "Mul", {"xw:z:0", "attention_mask"}, {{"T", dtype}});
  set_node(function.add_node_def(), "sum", "AddV2", {"masked:z:0", "read_b:value:0"}, {{"T", dtype}});
  signature->add_output_arg()->set_name("y");
  signature->mutable_output_arg(0)->set_type(tensorflow::DT_FLOAT);
  (*function.mutable_ret())["y"] = "sum:z:0";
  return function;
}

SavedModelSpec make_spec() {
  SavedModelSpec spec;
  spec.library = {make_function()};
  spec.variables = {{"model/layers/0/w", DType::f32, {2}, true}, {"lm_head/b.ias", DType::f32, {}, false}};
  const SavedFunction forward{"__inference_forward_1",
                              {{"attention_mask", DType::f32, {-1, 2}}, {"input_ids", DType::f32, {-1, 2}}},
                              {{"y", DType::f32, {-1, 2}}},
                              {1, 0}};
  spec.signatures = {{"serving_default", forward}};
  spec.methods = {{"__call__", forward}, {"logits", forward}};
  spec.assets = {{"config.json", "{\"hidden_size\": 2}\n"}, {"chat_template.jinja", "{{ messages }}"}};
  return spec;
}

Status write(const std::string& folder) {
  const FileSystem& files = real_files();
  TANDEM_CHECK(files.make_directories(folder));
  const SavedModelSpec spec = make_spec();
  TANDEM_CHECK(write_saved_model(files, folder, spec));
  TANDEM_TRY(const auto bundle, TensorBundleWriter::create(files, join(folder, "variables/variables")));
  const std::vector<std::vector<float>> values{{2, 3}, {0.5}};
  for (size_t i = 0; i < values.size(); ++i) {
    const SavedVariable& variable = spec.variables[i];
    TANDEM_CHECK(bundle->add(value_key(variable.path), variable.dtype, variable.shape,
                             [&](uint64_t offset, std::span<std::byte> out) -> Status {
                               std::memcpy(out.data(), std::as_bytes(std::span(values[i])).data() + offset,
                                           out.size());
                               return {};
                             }));
  }
  TANDEM_CHECK(bundle->add_string(std::string(kObjectGraphKey), checkpoint_object_graph(spec)));
  return bundle->finish();
}

}  // namespace
}  // namespace tandem

int main(int count, char** arguments) {
  if (count != 2) return 2;
  const auto written = tandem::write(arguments[1]);
  if (!written.ok()) std::fprintf(stderr, "%s\n", written.error().message().c_str());
  return written.ok() ? 0 : 1;
}
