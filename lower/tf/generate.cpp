#include "lower/tf/generate.h"

#include <algorithm>

namespace tandem {
namespace {

const Dim kMade("made");

/// What a generation has made so far.
struct Rows {
  Tensor done;     ///< bool[batch]
  Tensor lengths;  ///< i32[batch], tokens made
  Tensor limits;   ///< i32[batch], tokens wanted
  Tensor newest;   ///< i32[batch], the last token made
  Tensor tokens;   ///< i32[batch, made]
};

/// The rows after each has been given `token`; a row that has ended stays as it is and is filled up.
Rows extended(FunctionBuilder& f, const Rows& rows, const Tensor& token, const Ends& ends) {
  Rows next = rows;
  next.newest.ref = select(f, rows.done, ends.fill, token).ref;
  next.tokens = with_column(f, rows.tokens, next.newest, kMade);
  next.lengths = f.binary("AddV2", rows.lengths, f.cast(negated(f, rows.done), DType::i32));
  const Tensor full = compare(f, "GreaterEqual", next.lengths, next.limits);
  const Tensor equal = compare(f, "Equal", f.expand_dims(next.newest, -1), ends.ids);
  next.done = logical(f, "LogicalOr", rows.done, logical(f, "LogicalOr", full, reduced(f, "Any", equal)));
  return next;
}

/// Everything that a turn changes, in the order of the loop's inputs.
struct State {
  Rows rows;
  Tensor mask;
  NamedTensors caches;  ///< by their names in prefill's and decode's outputs
  NamedTensors values;  ///< of the chooser
};

template <class Visit>
void each(State& state, const Visit& visit) {
  visit("done", state.rows.done);
  visit("lengths", state.rows.lengths);
  visit("limits", state.rows.limits);
  visit("newest", state.rows.newest);
  visit("tokens", state.rows.tokens);
  visit("attention_mask", state.mask);
  for (auto& [name, cache] : state.caches) visit(name, cache);
  for (auto& [name, value] : state.values) visit(name, value);
}

/// The state as arguments of one of the loop's functions, and the handles after them.
Handles declare(FunctionBuilder& f, State& state, const StepFunctions& steps) {
  each(state, [&](const std::string& name, Tensor& tensor) { tensor = f.argument(name, tensor.type); });
  return capture(f, steps.decode.captures, steps.variables);
}

tensorflow::FunctionDef loop_condition(const std::string& name, State state, const StepFunctions& steps) {
  FunctionBuilder f(name);
  declare(f, state, steps);
  f.result("more", negated(f, reduced(f, "All", state.rows.done)));
  return f.finish();
}

/// The state after a token was chosen of the logits; mask and caches stay.
State chosen(FunctionBuilder& f, State state, const Tensor& logits, const std::string& step,
             const Chooser& chooser) {
  const Tensor token = chooser.choose(f, state.values, logits, step);
  state.rows = extended(f, state.rows, token, chooser.ends(f, state.values));
  state.values = chooser.after(f, std::move(state.values), state.rows.newest);
  return state;
}

tensorflow::FunctionDef loop_body(const std::string& name, State state, const StepFunctions& steps,
                                  const Chooser& chooser) {
  FunctionBuilder f(name);
  const Handles handles = declare(f, state, steps);
  state.mask = with_column(f, state.mask, f.unary("OnesLike", state.rows.newest), Dim("keys"));
  NamedTensors inputs{{"attention_mask", state.mask}, {"input_ids", f.expand_dims(state.rows.newest, -1)}};
  for (const auto& [present, cache] : state.caches)
    inputs["past" + present.substr(present.find('_'))] = cache;
  const NamedTensors outputs = call(f, steps.decode, inputs, handles);
  for (auto& [present, cache] : state.caches) cache = outputs.at(present);
  State next = chosen(f, std::move(state), outputs.at("logits"), f.axis(kMade), chooser);
  each(next, [&](const std::string& result, Tensor& tensor) { f.result(result + "_out", f.same(tensor)); });
  for (const size_t index : steps.decode.captures)
    f.resource_result(handles.at(index) + "_out", handles.at(index));
  return f.finish();
}

/// The state after the loop.
State looped(FunctionBuilder& f, const std::string& stem, State state, const Handles& handles,
             const StepFunctions& steps) {
  std::vector<Tensor> values;
  each(state, [&](const std::string&, const Tensor& tensor) { values.push_back(tensor); });
  values = while_loop(f, stem, std::move(values), steps.decode.captures, handles);
  size_t index = 0;
  each(state, [&](const std::string&, Tensor& tensor) { tensor.ref = values[index++].ref; });
  return state;
}

/// Rows of which nothing was made.
Rows no_tokens(FunctionBuilder& f, const Tensor& limits) {
  const Tensor none = f.unary("ZerosLike", limits);
  return {compare(f, "LessEqual", limits, none), none, limits, none, no_columns(f, kMade)};
}

SavedFunction declared(const std::string& name, const StepFunctions& steps, const Chooser& chooser) {
  SavedFunction made{name,
                     {{"attention_mask", DType::i32, {-1, -1}},
                      {"input_ids", DType::i32, {-1, -1}},
                      {"max_new_tokens", DType::i32, {-1}}},
                     {{"lengths", DType::i32, {-1}}, {"tokens", DType::i32, {-1, -1}}},
                     all_captures({&steps.prefill, &steps.decode})};
  for (const TensorSpec& input : chooser.inputs()) made.inputs.push_back(input);
  std::ranges::sort(made.inputs, {}, &TensorSpec::name);
  return made;
}

}  // namespace

SavedFunction lower_generate(std::vector<tensorflow::FunctionDef>& library, const std::string& name,
                             const StepFunctions& steps, const Chooser& chooser) {
  SavedFunction made = declared(name, steps, chooser);
  FunctionBuilder f(name);
  NamedTensors inputs;
  for (const TensorSpec& input : made.inputs) inputs[input.name] = argument(f, input);
  const Handles handles = capture(f, made.captures, steps.variables);
  NamedTensors caches = call(f, steps.prefill, inputs, handles);
  const Tensor logits = caches.extract("logits").mapped();

  State state{no_tokens(f, inputs.at("max_new_tokens")), inputs.at("attention_mask"), std::move(caches),
              chooser.begin(f, inputs, logits)};
  state = chosen(f, std::move(state), logits, f.scalar(0), chooser);
  library.push_back(loop_condition(name + "_condition", state, steps));
  library.push_back(loop_body(name + "_body", state, steps, chooser));
  const Rows rows = looped(f, name, std::move(state), handles, steps).rows;
  const std::string longest =
      f.node("Max", {rows.lengths.ref, f.constant({0})},
             {attr("T", DType::i32), attr("Tidx", DType::i32), attr("keep_dims", false)}, "output");
  f.result("lengths", f.same(rows.lengths));
  f.result("tokens", f.same(columns(f, rows.tokens, 0, longest)));
  library.push_back(f.finish());
  return made;
}

}  // namespace tandem
