#include "formats/saved_model/positional.h"

#include <algorithm>

#include "formats/saved_model/node_builder.h"

namespace tandem {

std::vector<TensorSpec>
method_parameters(const std::vector<TensorSpec> &sorted_inputs) {
  std::vector<TensorSpec> parameters = sorted_inputs;
  std::stable_partition(
      parameters.begin(), parameters.end(),
      [](const TensorSpec &spec) { return spec.name == "input_ids"; });
  return parameters;
}

tensorflow::FunctionDef
positional_function(const std::string &name,
                    const tensorflow::FunctionDef &callee,
                    const SavedFunction &method) {
  constexpr const char *kCall = "StatefulPartitionedCall";
  constexpr const char *kShapes = "_input_shapes";
  const auto &signature = callee.signature();

  // order[i] is the callee's index of our argument i.
  std::vector<int> order;
  for (const TensorSpec &parameter : method_parameters(method.inputs))
    for (int i = 0; i < static_cast<int>(method.inputs.size()); ++i)
      if (signature.input_arg(i).name() == parameter.name)
        order.push_back(i);
  for (int i = static_cast<int>(order.size()); i < signature.input_arg_size();
       ++i)
    order.push_back(i);

  tensorflow::FunctionDef function;
  function.mutable_signature()->set_name(name);
  function.mutable_signature()->set_is_stateful(true);
  for (size_t i = 0; i < order.size(); ++i) {
    *function.mutable_signature()->add_input_arg() =
        signature.input_arg(order[i]);
    if (const auto found =
            callee.arg_attr().find(static_cast<uint32_t>(order[i]));
        found != callee.arg_attr().end())
      (*function.mutable_arg_attr())[static_cast<uint32_t>(i)] = found->second;
  }
  if (const auto shapes = callee.attr().find(kShapes);
      shapes != callee.attr().end() &&
      shapes->second.list().shape_size() == signature.input_arg_size())
    for (const int i : order)
      *(*function.mutable_attr())[kShapes].mutable_list()->add_shape() =
          shapes->second.list().shape(i);

  Inputs inputs;
  std::vector<tensorflow::DataType> input_types, output_types;
  for (const auto &argument : signature.input_arg()) {
    inputs.push_back(argument.name());
    input_types.push_back(argument.type());
  }
  for (const auto &output : signature.output_arg()) {
    (*function.mutable_ret())[output.name()] =
        fmt::format("{}:output:{}", kCall, output_types.size());
    *function.mutable_signature()->add_output_arg() = output;
    output_types.push_back(output.type());
  }
  set_node(function.add_node_def(), kCall, kCall, inputs,
           {{"Tin", types_attr(input_types)},
            {"Tout", types_attr(output_types)},
            {"f", function_attr(signature.name())}});
  return function;
}

} // namespace tandem
