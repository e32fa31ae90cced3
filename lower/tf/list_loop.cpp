#include "lower/tf/list_loop.h"

namespace tandem {
namespace {

constexpr const char *kCounter = "counter", *kCount = "max_iterations", *kItems = "outputs";

/// The inputs of a loop's function, inside it.
struct Inside {
  std::vector<Tensor> values;
  std::vector<TfOperand> weights;
};

Inside declare(FunctionBuilder& f, const LoopInputs& inputs) {
  Inside inside;
  f.argument(kCounter, {DType::i32, {}});
  f.argument(kCount, {DType::i32, {}});
  f.variant(kItems);
  for (const auto& [name, value] : inputs.values) inside.values.push_back(f.argument(name, value.type));
  for (const auto& [name, weight] : inputs.weights)
    inside.weights.push_back(
        {{f.resource(name, *weight.storage, static_shape(weight.tensor.type)), weight.tensor.type},
         weight.storage});
  return inside;
}

tensorflow::FunctionDef condition(const std::string& name, const LoopInputs& inputs) {
  FunctionBuilder f(name);
  declare(f, inputs);
  f.result("more", {f.node("Less", {kCounter, kCount}, {attr("T", DType::i32)}, "z"), {DType::boolean, {}}});
  return f.finish();
}

tensorflow::FunctionDef turn(const std::string& name, const LoopInputs& inputs, const LoopBody& body) {
  FunctionBuilder f(name);
  const Inside inside = declare(f, inputs);
  const Tensor made = body(f, inside.values, inside.weights);
  const std::string items = f.node("TensorListSetItem", {kItems, kCounter, made.ref},
                                   {attr("element_dtype", made.type.dtype)}, "output_handle");
  const std::string next = f.node("AddV2", {kCounter, f.scalar(1)}, {attr("T", DType::i32)}, "z");
  f.result("counter_out", {next, {DType::i32, {}}});
  f.result("max_iterations_out", f.same({kCount, {DType::i32, {}}}));
  f.variant_result("outputs_out", items);
  for (size_t i = 0; i < inside.values.size(); ++i)
    f.result(inputs.values[i].first + "_out", f.same(inside.values[i]));
  for (const TfOperand& weight : inside.weights)
    f.resource_result(weight.tensor.ref + "_out", weight.tensor.ref);
  return f.finish();
}

}  // namespace

Tensor list_loop(FunctionBuilder& f, LowerContext& context, const std::string& stem, const Dim& axis,
                 const TensorType& item, const LoopInputs& inputs, const LoopBody& body) {
  const std::string name = fmt::format("{}_{}{}", context.function, stem, context.library->size());
  context.library->push_back(condition(name + "_condition", inputs));
  context.library->push_back(turn(name + "_body", inputs, body));

  const std::string count = f.axis(axis), element = f.shape({item.shape.begin(), item.shape.end()});
  const std::string items =
      f.node("TensorListReserve", {element, count},
             {attr("element_dtype", item.dtype), attr("shape_type", DType::i32)}, "handle");
  std::vector<std::string> refs{f.scalar(0), count, items};
  std::vector<std::optional<std::vector<int64_t>>> shapes(3, std::vector<int64_t>{});
  Attr types{"T", {}};
  auto* list = types.second.mutable_list();
  list->add_type(tensorflow::DT_INT32);
  list->add_type(tensorflow::DT_INT32);
  list->add_type(tensorflow::DT_VARIANT);
  for (const auto& [input, value] : inputs.values) {
    refs.push_back(value.ref);
    list->add_type(tf_dtype(value.type.dtype));
    shapes.push_back(static_shape(value.type));
  }
  for (const auto& [input, weight] : inputs.weights) {
    refs.push_back(weight.tensor.ref);
    list->add_type(tensorflow::DT_RESOURCE);
    shapes.push_back(std::vector<int64_t>{});
  }
  std::vector<Attr> attributes{types, function_attr("cond", name + "_condition"),
                               function_attr("body", name + "_body"), shapes_attr("output_shapes", shapes),
                               attr("parallel_iterations", int64_t{1})};
  if (!context.compiled) attributes.push_back(attr("_lower_using_switch_merge", true));
  const std::string loop = f.node("While", refs, attributes, "output");
  TensorType stacked = item;
  stacked.shape.insert(stacked.shape.begin(), axis);
  return {f.node("TensorListStack", {FunctionBuilder::nth(loop, 2), element},
                 {attr("element_dtype", item.dtype), attr("num_elements", int64_t{-1})}, "tensor"),
          stacked};
}

}  // namespace tandem
