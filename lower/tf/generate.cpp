#include "lower/tf/generate.h"

#include <algorithm>

#include "lower/tf/function_builder.h"

namespace tandem {
namespace {

Tensor as_i32(const std::string& ref, std::vector<Dim> shape) {
  return {ref, {DType::i32, std::move(shape)}};
}
Tensor as_bool(const std::string& ref, std::vector<Dim> shape) {
  return {ref, {DType::boolean, std::move(shape)}};
}

const Dim kBatch("batch");

/// A declared tensor's type; unknown axes get names that say which they are.
TensorType type_of(const TensorSpec& spec) {
  TensorType type{spec.dtype, {}};
  for (size_t axis = 0; axis < spec.shape.size(); ++axis)
    type.shape.push_back(spec.shape[axis] >= 0 ? Dim(static_cast<uint64_t>(spec.shape[axis]))
                         : axis == 0           ? kBatch
                                               : Dim(fmt::format("{}_{}", spec.name, axis)));
  return type;
}

Tensor argument(FunctionBuilder& f, const TensorSpec& spec) { return f.argument(spec.name, type_of(spec)); }

using Handles = std::map<size_t, std::string>;  ///< of variables, by their index

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

using Named = std::map<std::string, Tensor>;

/// function(inputs...), its outputs by name.
Named call(FunctionBuilder& f, const SavedFunction& function, const Named& inputs, const Handles& handles) {
  std::vector<std::string> refs;
  std::vector<DType> types, output_types;
  for (const TensorSpec& input : function.inputs) {
    refs.push_back(inputs.at(input.name).ref);
    types.push_back(input.dtype);
  }
  for (const size_t index : function.captures) refs.push_back(handles.at(index));
  for (const TensorSpec& output : function.outputs) output_types.push_back(output.dtype);
  const std::string ref = f.call(function.function, refs, types, function.captures.size(), output_types);
  Named outputs;
  for (size_t i = 0; i < function.outputs.size(); ++i)
    outputs[function.outputs[i].name] = {FunctionBuilder::nth(ref, static_cast<int>(i)),
                                         type_of(function.outputs[i])};
  return outputs;
}

/// True where `reduction` (All, Any) of the last axis is.
Tensor reduced(FunctionBuilder& f, const std::string& reduction, const Tensor& x) {
  TensorType type = x.type;
  type.shape.pop_back();
  return {f.node(reduction, {x.ref, f.constant({-1})}, {attr("Tidx", DType::i32), attr("keep_dims", false)},
                 "output"),
          type};
}

Tensor select(FunctionBuilder& f, const Tensor& condition, const std::string& yes, const Tensor& no) {
  return {f.node("SelectV2", {condition.ref, yes, no.ref}, {attr("T", no.type.dtype)}, "output"), no.type};
}

/// x with one more column, [batch, n + 1].
Tensor with_column(FunctionBuilder& f, const Tensor& x, const Tensor& column, const std::string& axis) {
  const Tensor wide = f.expand_dims(column, -1);
  return as_i32(f.node("ConcatV2", {x.ref, wide.ref, f.scalar(1)},
                       {attr("T", DType::i32), attr("N", int64_t{2}), attr("Tidx", DType::i32)}, "output"),
                {kBatch, Dim(axis)});
}

/// What a generation has made so far.
struct Rows {
  Tensor done;     ///< bool[batch]
  Tensor lengths;  ///< i32[batch], tokens made
  Tensor limits;   ///< i32[batch], tokens wanted
  Tensor newest;   ///< i32[batch], the last token made
  Tensor tokens;   ///< i32[batch, made]
};

Tensor most_likely(FunctionBuilder& f, const Tensor& logits) {  // [batch, 1, vocab] to [batch]
  const std::string best =
      f.node("ArgMax", {logits.ref, f.scalar(-1)},
             {attr("T", DType::f32), attr("Tidx", DType::i32), attr("output_type", DType::i32)}, "output");
  return f.reshape(as_i32(best, {kBatch, Dim(1)}), {kBatch});
}

/// The rows after each has been given `token`; a row that has ended stays as it is and is filled up.
Rows extended(FunctionBuilder& f, const Rows& rows, const Tensor& token,
              const std::vector<int64_t>& eos_token_ids) {
  const std::vector<int32_t> ends(eos_token_ids.begin(), eos_token_ids.end());
  Rows next = rows;
  next.newest = select(f, rows.done, f.scalar(ends.empty() ? 0 : ends[0]), token);
  next.tokens = with_column(f, rows.tokens, next.newest, "made");
  const Tensor goes_on = as_bool(f.node("LogicalNot", {rows.done.ref}, {}, "y"), {kBatch});
  next.lengths = f.binary("AddV2", rows.lengths, f.cast(goes_on, DType::i32));
  const std::string full =
      f.node("GreaterEqual", {next.lengths.ref, rows.limits.ref}, {attr("T", DType::i32)}, "z");
  next.done.ref = f.node("LogicalOr", {rows.done.ref, full}, {}, "z");
  if (ends.empty()) return next;
  const Tensor wide = f.expand_dims(next.newest, -1);
  const Tensor equal = as_bool(f.node("Equal", {wide.ref, f.constant(ends)}, {attr("T", DType::i32)}, "z"),
                               {kBatch, Dim(ends.size())});
  next.done.ref = f.node("LogicalOr", {next.done.ref, reduced(f, "Any", equal).ref}, {}, "z");
  return next;
}

Tensor ones_column(FunctionBuilder& f, const Tensor& like) {
  return f.same(as_i32(f.node("OnesLike", {like.ref}, {attr("T", DType::i32)}, "y"), {kBatch}));
}

/// Everything that a turn changes, in the order of the loop's inputs: rows, mask, caches.
struct State {
  Rows rows;
  Tensor mask;
  Named caches;  ///< by their names in prefill's and decode's outputs
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
}

/// The state as arguments of one of the loop's functions, and the handles after them.
Handles declare(FunctionBuilder& f, State& state, const StepFunctions& steps) {
  each(state, [&](const std::string& name, Tensor& tensor) { tensor = f.argument(name, tensor.type); });
  return capture(f, steps.decode.captures, steps.variables);
}

tensorflow::FunctionDef loop_condition(const std::string& name, State state, const StepFunctions& steps) {
  FunctionBuilder f(name);
  declare(f, state, steps);
  const Tensor all = reduced(f, "All", state.rows.done);
  f.result("more", as_bool(f.node("LogicalNot", {all.ref}, {}, "y"), {}));
  return f.finish();
}

tensorflow::FunctionDef loop_body(const std::string& name, State state, const StepFunctions& steps,
                                  const std::vector<int64_t>& eos_token_ids) {
  FunctionBuilder f(name);
  const Handles handles = declare(f, state, steps);
  const Tensor mask = with_column(f, state.mask, ones_column(f, state.rows.newest), "keys");
  Named inputs{{"attention_mask", mask}, {"input_ids", f.expand_dims(state.rows.newest, -1)}};
  for (const auto& [present, cache] : state.caches)
    inputs["past" + present.substr(present.find('_'))] = cache;
  const Named outputs = call(f, steps.decode, inputs, handles);
  State next{extended(f, state.rows, most_likely(f, outputs.at("logits")), eos_token_ids), mask, {}};
  for (const auto& [present, cache] : state.caches) next.caches[present] = outputs.at(present);
  each(next, [&](const std::string& result, Tensor& tensor) { f.result(result + "_out", f.same(tensor)); });
  for (const size_t index : steps.decode.captures)
    f.resource_result(handles.at(index) + "_out", handles.at(index));
  return f.finish();
}

/// The state after the loop.
State looped(FunctionBuilder& f, const std::string& stem, State state, const Handles& handles,
             const StepFunctions& steps) {
  std::vector<std::string> refs;
  std::vector<std::optional<std::vector<int64_t>>> shapes;
  Attr types{"T", {}};
  each(state, [&](const std::string&, Tensor& tensor) {
    refs.push_back(tensor.ref);
    shapes.push_back(static_shape(tensor.type));
    types.second.mutable_list()->add_type(tf_dtype(tensor.type.dtype));
  });
  for (const size_t index : steps.decode.captures) {
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
  each(state, [&](const std::string&, Tensor& tensor) { tensor.ref = FunctionBuilder::nth(loop, index++); });
  return state;
}

std::vector<size_t> all_captures(const SavedFunction& a, const SavedFunction& b) {
  std::vector<size_t> captures = a.captures;
  for (const size_t index : b.captures)
    if (std::ranges::count(captures, index) == 0) captures.push_back(index);
  return captures;
}

/// Columns [begin, end) of [batch, n].
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

}  // namespace

SavedFunction lower_generate_greedy(std::vector<tensorflow::FunctionDef>& library, const std::string& name,
                                    const StepFunctions& steps, const std::vector<int64_t>& eos_token_ids) {
  SavedFunction made{name,
                     {{"attention_mask", DType::i32, {-1, -1}},
                      {"input_ids", DType::i32, {-1, -1}},
                      {"max_new_tokens", DType::i32, {-1}}},
                     {{"lengths", DType::i32, {-1}}, {"tokens", DType::i32, {-1, -1}}},
                     all_captures(steps.prefill, steps.decode)};
  FunctionBuilder f(name);
  Named inputs;
  for (const TensorSpec& input : made.inputs) inputs[input.name] = argument(f, input);
  const Handles handles = capture(f, made.captures, steps.variables);
  Named outputs = call(f, steps.prefill, inputs, handles);

  const Tensor limits = inputs.at("max_new_tokens");
  const Tensor none = as_i32(f.node("ZerosLike", {limits.ref}, {attr("T", DType::i32)}, "y"), {kBatch});
  const Tensor nothing_wanted =
      as_bool(f.node("LessEqual", {limits.ref, none.ref}, {attr("T", DType::i32)}, "z"), {kBatch});
  const Tensor no_tokens = as_i32(f.node("Fill", {f.shape({kBatch, Dim(0)}), f.scalar(0)},
                                         {attr("T", DType::i32), attr("index_type", DType::i32)}, "output"),
                                  {kBatch, Dim("made")});
  const Rows begin{nothing_wanted, none, limits, none, no_tokens};
  State state{extended(f, begin, most_likely(f, outputs.at("logits")), eos_token_ids),
              inputs.at("attention_mask"), outputs};
  state.caches.erase("logits");

  library.push_back(loop_condition(name + "_condition", state, steps));
  library.push_back(loop_body(name + "_body", state, steps, eos_token_ids));
  const State end = looped(f, name, state, handles, steps);
  const std::string longest =
      f.node("Max", {end.rows.lengths.ref, f.constant({0})},
             {attr("T", DType::i32), attr("Tidx", DType::i32), attr("keep_dims", false)}, "output");
  f.result("lengths", f.same(end.rows.lengths));
  f.result("tokens", f.same(columns(f, end.rows.tokens, 0, longest)));
  library.push_back(f.finish());
  return made;
}

SavedFunction lower_score(std::vector<tensorflow::FunctionDef>& library, const std::string& name,
                          const SavedFunction& logits, const std::vector<SavedVariable>& variables) {
  SavedFunction made{name, logits.inputs, {{"log_probabilities", DType::f32, {-1, -1}}}, logits.captures};
  FunctionBuilder f(name);
  const Dim tokens("tokens");
  Named inputs;
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
  const Tensor kept = select(f, is_real, found.ref, zeros);
  // And back: the last column, which foretells nothing, becomes the first.
  f.result("log_probabilities",
           {f.node("Roll", {kept.ref, one, one},
                   {attr("T", DType::f32), attr("Tshift", DType::i32), attr("Taxis", DType::i32)}, "output"),
            kept.type});
  library.push_back(f.finish());
  return made;
}

}  // namespace tandem
