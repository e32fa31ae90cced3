#include "formats/saved_model/entry.h"

#include <algorithm>

#include "formats/saved_model/node_builder.h"

namespace tandem {

std::vector<TensorSpec> method_parameters(const std::vector<TensorSpec>& sorted_inputs) {
  std::vector<TensorSpec> parameters = sorted_inputs;
  std::stable_partition(parameters.begin(), parameters.end(), [](const TensorSpec& spec) {
    return spec.name == "input_ids" || spec.name == "hidden_states";
  });
  return parameters;
}

tensorflow::FunctionDef entry_function(const std::string& name, const SavedFunction& function,
                                       const std::vector<TensorSpec>& parameters,
                                       const std::vector<SavedVariable>& variables) {
  constexpr const char* kCall = "call";
  tensorflow::FunctionDef entry;
  auto* signature = entry.mutable_signature();
  signature->set_name(name);
  signature->set_is_stateful(true);
  auto* shapes = (*entry.mutable_attr())["_input_shapes"].mutable_list();
  for (const TensorSpec& parameter : parameters) {
    auto* argument = signature->add_input_arg();
    argument->set_name(parameter.name);
    argument->set_type(to_tensorflow(parameter.dtype));
    set_shape(shapes->add_shape(), parameter.shape);
    // The error of this op names its input, which is the argument.
    set_node(entry.add_node_def(), "checked/" + parameter.name, "EnsureShape", {parameter.name},
             {{"T", type_attr(argument->type())}, {"shape", shape_attr(parameter.shape)}});
  }

  Inputs inputs;
  std::vector<tensorflow::DataType> input_types, output_types;
  for (const TensorSpec& input : function.inputs) {
    inputs.push_back(fmt::format("checked/{}:output:0", input.name));
    input_types.push_back(to_tensorflow(input.dtype));
  }
  for (size_t i = 0; i < function.captures.size(); ++i) {
    const SavedVariable& variable = variables[function.captures[i]];
    auto* argument = signature->add_input_arg();
    argument->set_name(fmt::format("variable_{}", i));
    argument->set_type(tensorflow::DT_RESOURCE);
    argument->add_handle_data()->set_dtype(to_tensorflow(variable.dtype));
    set_shape(argument->mutable_handle_data(0)->mutable_shape(), variable.shape);
    shapes->add_shape();  // a handle is a scalar
    inputs.push_back(argument->name());
    input_types.push_back(tensorflow::DT_RESOURCE);
  }
  for (const TensorSpec& output : function.outputs) {
    signature->add_output_arg()->set_name(output.name);
    signature->mutable_output_arg(static_cast<int>(output_types.size()))
        ->set_type(to_tensorflow(output.dtype));
    (*entry.mutable_ret())[output.name] = fmt::format("{}:output:{}", kCall, output_types.size());
    output_types.push_back(to_tensorflow(output.dtype));
  }
  set_node(entry.add_node_def(), kCall, "StatefulPartitionedCall", inputs,
           {{"Tin", types_attr(input_types)},
            {"Tout", types_attr(output_types)},
            {"f", function_attr(function.function)}});
  return entry;
}

}  // namespace tandem
