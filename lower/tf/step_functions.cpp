#include "lower/tf/step_functions.h"

#include <algorithm>

namespace tandem {
namespace {

TensorType type_of(const TensorSpec& spec) {
  TensorType type{spec.dtype, {}};
  for (size_t axis = 0; axis < spec.shape.size(); ++axis)
    type.shape.push_back(spec.shape[axis] >= 0 ? Dim(static_cast<uint64_t>(spec.shape[axis]))
                         : axis == 0           ? kBatch
                                               : Dim(fmt::format("{}_{}", spec.name, axis)));
  return type;
}

}  // namespace

Tensor argument(FunctionBuilder& f, const TensorSpec& spec) { return f.argument(spec.name, type_of(spec)); }

Handles capture(FunctionBuilder& f, const std::vector<size_t>& captures,
                const std::vector<SavedVariable>& variables) {
  Handles handles;
  for (const size_t index : captures) {
    const SavedVariable& variable = variables[index];
    handles[index] = f.resource(fmt::format("variable_{}", index), variable.dtype,
                                {variable.shape.begin(), variable.shape.end()});
  }
  return handles;
}

NamedTensors call(FunctionBuilder& f, const SavedFunction& function, const NamedTensors& inputs,
                  const Handles& handles) {
  std::vector<std::string> refs;
  std::vector<DType> types, output_types;
  for (const TensorSpec& input : function.inputs) {
    refs.push_back(inputs.at(input.name).ref);
    types.push_back(input.dtype);
  }
  for (const size_t index : function.captures) refs.push_back(handles.at(index));
  for (const TensorSpec& output : function.outputs) output_types.push_back(output.dtype);
  const std::string ref = f.call(function.function, refs, types, function.captures.size(), output_types);
  NamedTensors outputs;
  for (size_t i = 0; i < function.outputs.size(); ++i)
    outputs[function.outputs[i].name] = {FunctionBuilder::nth(ref, static_cast<int>(i)),
                                         type_of(function.outputs[i])};
  return outputs;
}

std::vector<size_t> all_captures(const std::vector<const SavedFunction*>& functions) {
  std::vector<size_t> captures;
  for (const SavedFunction* function : functions)
    for (const size_t index : function->captures)
      if (std::ranges::count(captures, index) == 0) captures.push_back(index);
  return captures;
}

std::vector<Tensor> while_loop(FunctionBuilder& f, const std::string& stem, std::vector<Tensor> values,
                               const std::vector<size_t>& captures, const Handles& handles) {
  std::vector<std::string> refs;
  std::vector<std::optional<std::vector<int64_t>>> shapes;
  Attr types{"T", {}};
  for (const Tensor& value : values) {
    refs.push_back(value.ref);
    shapes.push_back(static_shape(value.type));
    types.second.mutable_list()->add_type(tf_dtype(value.type.dtype));
  }
  for (const size_t index : captures) {
    refs.push_back(handles.at(index));
    shapes.push_back(std::vector<int64_t>{});
    types.second.mutable_list()->add_type(tensorflow::DT_RESOURCE);
  }
  const std::string loop =
      f.node("While", refs,
             {types, function_attr("cond", stem + "_condition"), function_attr("body", stem + "_body"),
              shapes_attr("output_shapes", shapes), attr("parallel_iterations", int64_t{1}),
              attr("_lower_using_switch_merge", true)},
             "output");
  int index = 0;
  for (Tensor& value : values) value.ref = FunctionBuilder::nth(loop, index++);
  return values;
}

Tensor as_i32(const std::string& ref, std::vector<Dim> shape) {
  return {ref, {DType::i32, std::move(shape)}};
}

Tensor as_bool(const std::string& ref, std::vector<Dim> shape) {
  return {ref, {DType::boolean, std::move(shape)}};
}

Tensor compare(FunctionBuilder& f, const std::string& op, const Tensor& x, const Tensor& y) {
  return as_bool(f.node(op, {x.ref, y.ref}, {attr("T", x.type.dtype)}, "z"), x.type.shape);
}

Tensor logical(FunctionBuilder& f, const std::string& op, const Tensor& x, const Tensor& y) {
  return as_bool(f.node(op, {x.ref, y.ref}, {}, "z"), x.type.shape);
}

Tensor select(FunctionBuilder& f, const Tensor& condition, const Tensor& yes, const Tensor& no) {
  return {f.node("SelectV2", {condition.ref, yes.ref, no.ref}, {attr("T", no.type.dtype)}, "output"),
          no.type};
}

Tensor reduced(FunctionBuilder& f, const std::string& reduction, const Tensor& x, bool keep_axis) {
  TensorType type = x.type;
  type.shape.pop_back();
  if (keep_axis) type.shape.push_back(Dim(1));
  std::vector<Attr> attributes{attr("Tidx", DType::i32), attr("keep_dims", keep_axis)};
  if (x.type.dtype != DType::boolean) attributes.push_back(attr("T", x.type.dtype));
  return {f.node(reduction, {x.ref, f.constant({-1})}, attributes, "output"), type};
}

Tensor negated(FunctionBuilder& f, const Tensor& x) {
  return {f.node("LogicalNot", {x.ref}, {}, "y"), x.type};
}

Tensor with_column(FunctionBuilder& f, const Tensor& x, const Tensor& column, const Dim& axis) {
  const Tensor wide = f.expand_dims(column, -1);
  return as_i32(f.node("ConcatV2", {x.ref, wide.ref, f.scalar(1)},
                       {attr("T", DType::i32), attr("N", int64_t{2}), attr("Tidx", DType::i32)}, "output"),
                {kBatch, axis});
}

Tensor no_columns(FunctionBuilder& f, const Dim& axis) {
  return as_i32(f.node("Fill", {f.shape({kBatch, Dim(0)}), f.scalar(0)},
                       {attr("T", DType::i32), attr("index_type", DType::i32)}, "output"),
                {kBatch, axis});
}

Tensor columns(FunctionBuilder& f, const Tensor& x, int32_t begin, const std::string& end) {
  const std::string last =
      f.node("Pack", {f.scalar(0), end},
             {attr("T", DType::i32), attr("N", int64_t{2}), attr("axis", int64_t{0})}, "output");
  return {f.node("StridedSlice", {x.ref, f.constant({0, begin}), last, f.constant({1, 1})},
                 {attr("T", x.type.dtype), attr("Index", DType::i32), attr("begin_mask", int64_t{1}),
                  attr("end_mask", int64_t{1})},
                 "output"),
          {x.type.dtype, {kBatch, Dim("columns")}}};
}

}  // namespace tandem
