#pragma once
// The smallest SavedModel that has one of everything: two variables, a signature, two methods, two assets.

#include "formats/saved_model/node_builder.h"

namespace tandem::testing {

/// y = input_ids * w + b, and z = attention_mask; sorted arguments, so
/// attention_mask comes first.
inline tensorflow::FunctionDef minimal_function() {
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

inline SavedModelSpec minimal_spec() {
  SavedModelSpec spec;
  spec.library = {minimal_function()};
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

}  // namespace tandem::testing
