#pragma once
// Small makers of TensorFlow's messages, as assemble.cpp needs them.

#include <string>
#include <vector>

#include "formats/saved_model/saved_model.h"

namespace tandem {

inline tensorflow::DataType to_tensorflow(DType dtype) {
  return static_cast<tensorflow::DataType>(row(dtype).tensorflow);
}

template <class Dims>
void set_shape(tensorflow::TensorShapeProto* proto, const Dims& dims) {
  proto->Clear();
  for (const auto dim : dims) proto->add_dim()->set_size(static_cast<int64_t>(dim));
}

tensorflow::AttrValue type_attr(tensorflow::DataType dtype);
tensorflow::AttrValue types_attr(const std::vector<tensorflow::DataType>& dtypes);
tensorflow::AttrValue string_attr(const std::string& text);
tensorflow::AttrValue function_attr(const std::string& name);
template <class Dims>
tensorflow::AttrValue shape_attr(const Dims& dims) {
  tensorflow::AttrValue value;
  set_shape(value.mutable_shape(), dims);
  return value;
}

using Attributes = std::vector<std::pair<const char*, tensorflow::AttrValue>>;
using Inputs = std::vector<std::string>;

/// Fills a node. Inputs are spelled as the graph they lie in wants it ("x:0" at
/// top level, "x:out:0" in a function).
void set_node(tensorflow::NodeDef* node, const std::string& name, const std::string& op, const Inputs& inputs,
              const Attributes& attributes);

// StructuredValues, in which SavedModels write Python's argument structures.
tensorflow::StructuredValue none_value();
tensorflow::StructuredValue text_value(const std::string& text);
tensorflow::StructuredValue spec_value(const TensorSpec& spec);
tensorflow::StructuredValue list_value(const std::vector<tensorflow::StructuredValue>& values);
tensorflow::StructuredValue tuple_value(const std::vector<tensorflow::StructuredValue>& values);
tensorflow::StructuredValue dict_value(const std::vector<TensorSpec>& specs);  ///< by the specs' names

}  // namespace tandem
