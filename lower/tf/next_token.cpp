#include "lower/tf/generate.h"

namespace tandem {
namespace {

/// prefill, of which the logits alone go on.
Tensor last_logits(FunctionBuilder& f, const SavedFunction& made, const StepFunctions& steps) {
  NamedTensors inputs;
  for (const TensorSpec& input : made.inputs) inputs[input.name] = argument(f, input);
  return call(f, steps.prefill, inputs, capture(f, made.captures, steps.variables)).at("logits");
}

}  // namespace

SavedFunction lower_next_logits(std::vector<tensorflow::FunctionDef>& library, const std::string& name,
                                const StepFunctions& steps) {
  SavedFunction made{name, steps.prefill.inputs, {}, steps.prefill.captures};
  for (const TensorSpec& output : steps.prefill.outputs)
    if (output.name == "logits") made.outputs.push_back(output);
  FunctionBuilder f(name);
  f.result("logits", f.same(last_logits(f, made, steps)));
  library.push_back(f.finish());
  return made;
}

SavedFunction lower_next_tokens(std::vector<tensorflow::FunctionDef>& library, const std::string& name,
                                const StepFunctions& steps) {
  SavedFunction made{name,
                     steps.prefill.inputs,
                     {{"log_probabilities", DType::f32, {-1, -1}}, {"tokens", DType::i32, {-1, -1}}},
                     steps.prefill.captures};
  made.inputs.push_back({"top_k", DType::i32, {-1}});
  FunctionBuilder f(name);
  const Tensor logits = last_logits(f, made, steps);
  const Dim vocab = logits.type.shape.back();
  const Tensor rows = f.reshape(logits, {kBatch, vocab});
  const std::string logarithms = f.node("LogSoftmax", {rows.ref}, {attr("T", DType::f32)}, "logsoftmax");
  const Tensor wanted = f.reshape(as_i32("top_k", {kBatch}), {kBatch});
  const Tensor most = f.binary("Minimum", reduced(f, "Max", wanted), as_i32(f.axis(vocab), {}));
  const std::string best =
      f.node("TopKV2", {logarithms, most.ref}, {attr("T", DType::f32), attr("sorted", true)}, "values");
  const std::vector<Dim> shape{kBatch, Dim("top")};
  f.result("log_probabilities", f.same({best, {DType::f32, shape}}));
  f.result("tokens", f.same(as_i32(FunctionBuilder::nth(best, 0, "indices"), shape)));
  library.push_back(f.finish());
  return made;
}

}  // namespace tandem
