#include "formats/saved_model/node_builder.h"

namespace tandem {

using tensorflow::AttrValue;
using tensorflow::StructuredValue;

AttrValue type_attr(tensorflow::DataType dtype) {
  AttrValue value;
  value.set_type(dtype);
  return value;
}

AttrValue types_attr(const std::vector<tensorflow::DataType>& dtypes) {
  AttrValue value;
  value.mutable_list();
  for (const auto dtype : dtypes) value.mutable_list()->add_type(dtype);
  return value;
}

AttrValue string_attr(const std::string& text) {
  AttrValue value;
  value.set_s(text);
  return value;
}

AttrValue function_attr(const std::string& name) {
  AttrValue value;
  value.mutable_func()->set_name(name);
  return value;
}

void set_node(tensorflow::NodeDef* node, const std::string& name, const std::string& op, const Inputs& inputs,
              const Attributes& attributes) {
  node->set_name(name);
  node->set_op(op);
  for (const std::string& input : inputs) node->add_input(input);
  for (const auto& [key, value] : attributes) (*node->mutable_attr())[key] = value;
}

StructuredValue none_value() {
  StructuredValue value;
  value.mutable_none_value();
  return value;
}

StructuredValue text_value(const std::string& text) {
  StructuredValue value;
  value.set_string_value(text);
  return value;
}

StructuredValue spec_value(const TensorSpec& spec) {
  StructuredValue value;
  value.mutable_tensor_spec_value()->set_name(spec.name);
  value.mutable_tensor_spec_value()->set_dtype(to_tensorflow(spec.dtype));
  set_shape(value.mutable_tensor_spec_value()->mutable_shape(), spec.shape);
  return value;
}

StructuredValue list_value(const std::vector<StructuredValue>& values) {
  StructuredValue value;
  value.mutable_list_value();
  for (const auto& item : values) *value.mutable_list_value()->add_values() = item;
  return value;
}

StructuredValue tuple_value(const std::vector<StructuredValue>& values) {
  StructuredValue value;
  value.mutable_tuple_value();
  for (const auto& item : values) *value.mutable_tuple_value()->add_values() = item;
  return value;
}

StructuredValue dict_value(const std::vector<TensorSpec>& specs) {
  StructuredValue value;
  value.mutable_dict_value();
  for (const TensorSpec& spec : specs)
    (*value.mutable_dict_value()->mutable_fields())[spec.name] = spec_value(spec);
  return value;
}

}  // namespace tandem
