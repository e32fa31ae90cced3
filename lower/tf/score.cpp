#include "lower/tf/generate.h"

namespace tandem {

SavedFunction lower_score(std::vector<tensorflow::FunctionDef>& library, const std::string& name,
                          const SavedFunction& logits, const std::vector<SavedVariable>& variables) {
  SavedFunction made{name, logits.inputs, {{"log_probabilities", DType::f32, {-1, -1}}}, logits.captures};
  FunctionBuilder f(name);
  const Dim tokens("tokens");
  NamedTensors inputs;
  for (const TensorSpec& input : made.inputs)
    inputs[input.name] = f.argument(input.name, {DType::i32, {kBatch, tokens}});
  const Handles handles = capture(f, made.captures, variables);
  const Tensor all = call(f, logits, inputs, handles).at("logits");
  const Tensor logarithms{f.node("LogSoftmax", {all.ref}, {attr("T", DType::f32)}, "logsoftmax"),
                          {DType::f32, {kBatch, tokens, all.type.shape[2]}}};
  // A token is foretold by the logits of the one before it: ids and mask, moved one to the left.
  const std::string count = f.axis(tokens), one = f.scalar(1);
  const auto moved = [&](const Tensor& x) {
    const Tensor rest = columns(f, x, 1, count);
    return as_i32(f.node("Pad", {rest.ref, f.matrix({{0, 0}, {0, 1}})},
                         {attr("T", DType::i32), attr("Tpaddings", DType::i32)}, "output"),
                  {kBatch, tokens});
  };
  const Tensor next = f.expand_dims(moved(inputs.at("input_ids")), -1);
  const Tensor found = f.reshape(f.gather(logarithms, next, 2, 2), {kBatch, tokens});
  const Tensor both = f.binary("Mul", moved(inputs.at("attention_mask")), inputs.at("attention_mask"));
  const Tensor is_real =
      as_bool(f.node("Greater", {both.ref, f.scalar(0)}, {attr("T", DType::i32)}, "z"), {kBatch, tokens});
  const Tensor zeros{f.node("ZerosLike", {found.ref}, {attr("T", DType::f32)}, "y"), found.type};
  const Tensor kept = select(f, is_real, found, zeros);
  // And back: the last column, which foretells nothing, becomes the first.
  f.result("log_probabilities",
           {f.node("Roll", {kept.ref, one, one},
                   {attr("T", DType::f32), attr("Tshift", DType::i32), attr("Taxis", DType::i32)}, "output"),
            kept.type});
  library.push_back(f.finish());
  return made;
}

}  // namespace tandem
