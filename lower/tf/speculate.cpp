// The greedy loop with drafts. Rows of a batch accept as they do, each by itself: a turn adds two tokens to
// all caches, and the mask takes back those that the model did not choose.

#include "lower/tf/generate.h"

namespace tandem {
namespace {

const Dim kKeys("keys"), kMade("made"), kTwo(2);
const std::string kOfDraft = "draft_";  ///< before the caches of the layer that drafts

/// Everything that a turn changes, by the names that the loop's functions know it by: the caches, and
///   done bool[batch]; limits, lengths, newest, draft, drafted, accepted i32[batch]
///   tokens, emitted i32[batch, made]: candidates, and 1 where one is a token of its row
///   attention_mask i32[batch, keys]
using State = NamedTensors;

/// The most likely ids, i32[batch, n].
Tensor best(FunctionBuilder& f, const Tensor& logits) {
  return as_i32(
      f.node("ArgMax", {logits.ref, f.scalar(-1)},
             {attr("T", DType::f32), attr("Tidx", DType::i32), attr("output_type", DType::i32)}, "output"),
      {kBatch, logits.type.shape[1]});
}

/// Column `index` of [batch, n], as [batch].
Tensor column(FunctionBuilder& f, const Tensor& x, int32_t index) {
  return f.reshape(f.slice_last(x, index, index + 1), {kBatch});
}

Tensor counted(FunctionBuilder& f, const Tensor& count, const Tensor& yes) {
  return f.binary("AddV2", count, f.cast(yes, DType::i32));
}

/// How many tokens of its row stand up to each: the position of the token after it.
Tensor cumulated(FunctionBuilder& f, const Tensor& mask, bool exclusive = false) {
  return {f.node("Cumsum", {mask.ref, f.scalar(1)},
                 {attr("T", DType::i32), attr("Tidx", DType::i32), attr("exclusive", exclusive)}, "out"),
          mask.type};
}

Tensor last_two(FunctionBuilder& f, const Tensor& x) {
  return as_i32(f.node("StridedSlice", {x.ref, f.constant({0, -2}), f.constant({0, 0}), f.constant({1, 1})},
                       {attr("T", DType::i32), attr("Index", DType::i32), attr("begin_mask", int64_t{1}),
                        attr("end_mask", int64_t{3})},
                       "output"),
                {kBatch, kTwo});
}

/// Rows for which `given` is true get a token, and may end with it.
void add_token(FunctionBuilder& f, State& state, const Tensor& token, const Tensor& given, const Ends& ends) {
  state["tokens"] = with_column(f, state.at("tokens"), token, kMade);
  state["emitted"] = with_column(f, state.at("emitted"), f.cast(given, DType::i32), kMade);
  state["lengths"] = counted(f, state.at("lengths"), given);
  const Tensor full = compare(f, "GreaterEqual", state.at("lengths"), state.at("limits"));
  const Tensor equal = compare(f, "Equal", f.expand_dims(token, -1), ends.ids);
  const Tensor last = logical(f, "LogicalOr", full, reduced(f, "Any", equal));
  state["done"] = logical(f, "LogicalOr", state.at("done"), logical(f, "LogicalAnd", given, last));
}

/// The caches of `outputs`, under `prefix`.
void keep_caches(State& state, const NamedTensors& outputs, const std::string& prefix) {
  for (const auto& [name, tensor] : outputs)
    if (name.starts_with("present_")) state[prefix + name] = tensor;
}

/// Adds the caches under `prefix` to what a step takes.
NamedTensors with_past(NamedTensors inputs, const State& state, const std::string& prefix) {
  const std::string present = prefix + "present_";
  for (const auto& [name, tensor] : state)
    if (name.starts_with(present)) inputs["past_" + name.substr(present.size())] = tensor;
  return inputs;
}

/// The state as arguments of one of the loop's functions, and the handles after them.
Handles declare(FunctionBuilder& f, State& state, const std::vector<size_t>& captures,
                const DraftingFunctions& functions) {
  for (auto& [name, tensor] : state) tensor = f.argument(name, tensor.type);
  return capture(f, captures, functions.variables);
}

/// The state after the prompt: one token and one draft.
State begun(FunctionBuilder& f, const NamedTensors& inputs, const Handles& handles,
            const DraftingFunctions& functions, const Ends& ends) {
  const Tensor &mask = inputs.at("attention_mask"), &ids = inputs.at("input_ids"),
               &limits = inputs.at("max_new_tokens");
  const NamedTensors outputs = call(f, functions.prefill, inputs, handles);
  const Tensor none = f.unary("ZerosLike", limits), token = column(f, best(f, outputs.at("logits")), 0);
  State state{{"done", compare(f, "LessEqual", limits, none)},
              {"limits", limits},
              {"lengths", none},
              {"newest", token},
              {"drafted", none},
              {"accepted", none},
              {"tokens", no_columns(f, kMade)},
              {"emitted", no_columns(f, kMade)},
              {"attention_mask", as_i32(mask.ref, {kBatch, kKeys})}};
  keep_caches(state, outputs, "");
  add_token(f, state, token, negated(f, state.at("done")), ends);
  const Tensor next = with_column(f, columns(f, ids, 1, f.axis(ids.type.shape[1])), token, Dim("next"));
  const NamedTensors drafts = call(f, functions.prefill_draft,
                                   {{"hidden_states", outputs.at("hidden_states")},
                                    {"input_ids", next},
                                    {"attention_mask", mask},
                                    {"position_ids", cumulated(f, mask)}},
                                   handles);
  keep_caches(state, drafts, kOfDraft);
  state["draft"] = column(f, best(f, drafts.at("logits")), 0);
  return state;
}

/// One turn: the model chooses after the newest token and after the draft; then the next draft is made.
State after_turn(FunctionBuilder& f, State state, const Handles& handles, const DraftingFunctions& functions,
                 const Ends& ends) {
  const Tensor newest = state.at("newest"), draft = state.at("draft"), mask = state.at("attention_mask");
  const Tensor one = f.unary("OnesLike", newest);
  const Tensor with_newest = with_column(f, mask, one, kKeys);
  const Tensor two =
      f.reshape(f.concat_last(f.expand_dims(newest, -1), f.expand_dims(draft, -1)), {kBatch, kTwo});
  const NamedTensors outputs = call(
      f, functions.decode,
      with_past({{"input_ids", two}, {"attention_mask", with_column(f, with_newest, one, kKeys)}}, state, ""),
      handles);
  const Tensor chosen = best(f, outputs.at("logits"));
  const Tensor first = column(f, chosen, 0), second = column(f, chosen, 1);
  const Tensor hit = compare(f, "Equal", draft, first), going = negated(f, state.at("done"));
  state["drafted"] = counted(f, state.at("drafted"), going);
  state["accepted"] = counted(f, state.at("accepted"), logical(f, "LogicalAnd", going, hit));
  add_token(f, state, first, going, ends);
  add_token(f, state, second, logical(f, "LogicalAnd", negated(f, state.at("done")), hit), ends);
  state["attention_mask"] = with_column(f, with_newest, f.cast(hit, DType::i32), kKeys);
  const NamedTensors drafts =
      call(f, functions.decode_draft,
           with_past({{"hidden_states", outputs.at("hidden_states")},
                      {"input_ids", chosen},
                      {"attention_mask", state.at("attention_mask")},
                      {"position_ids", last_two(f, cumulated(f, state.at("attention_mask")))}},
                     state, kOfDraft),
           handles);
  const Tensor next = best(f, drafts.at("logits"));
  state["draft"] = select(f, hit, column(f, next, 1), column(f, next, 0));
  state["newest"] = select(f, hit, second, first);
  keep_caches(state, outputs, "");
  keep_caches(state, drafts, kOfDraft);
  return state;
}

tensorflow::FunctionDef loop_condition(const std::string& name, State state,
                                       const std::vector<size_t>& captures,
                                       const DraftingFunctions& functions) {
  FunctionBuilder f(name);
  declare(f, state, captures, functions);
  f.result("more", negated(f, reduced(f, "All", state.at("done"))));
  return f.finish();
}

tensorflow::FunctionDef loop_body(const std::string& name, State state, const std::vector<size_t>& captures,
                                  const DraftingFunctions& functions, const Chooser& chooser) {
  FunctionBuilder f(name);
  const Handles handles = declare(f, state, captures, functions);
  state = after_turn(f, std::move(state), handles, functions, chooser.ends(f, {}));
  for (const auto& [result, tensor] : state) f.result(result + "_out", f.same(tensor));
  for (const size_t index : captures) f.resource_result(handles.at(index) + "_out", handles.at(index));
  return f.finish();
}

/// The tokens of each row one after the other, [batch, longest of lengths], filled up behind them.
Tensor gathered(FunctionBuilder& f, const State& state, const Ends& ends) {
  const Tensor &lengths = state.at("lengths"), &emitted = state.at("emitted");
  const std::string longest =
      f.node("Max", {lengths.ref, f.constant({0})},
             {attr("T", DType::i32), attr("Tidx", DType::i32), attr("keep_dims", false)}, "output");
  const auto pack = [&](const std::string& x, const std::string& y, int64_t axis) {
    return f.node("Pack", {x, y}, {attr("T", DType::i32), attr("N", int64_t{2}), attr("axis", axis)},
                  "output");
  };
  // What is no token of its row goes to one column behind all others, which is cut off.
  const Tensor is_token{f.node("Greater", {emitted.ref, f.scalar(0)}, {attr("T", DType::i32)}, "z"),
                        {DType::boolean, emitted.type.shape}};
  const Tensor places{f.node("SelectV2", {is_token.ref, cumulated(f, emitted, true).ref, longest},
                             {attr("T", DType::i32)}, "output"),
                      emitted.type};
  const Tensor numbers = as_i32(f.range(f.scalar(0), f.axis(kBatch)), {kBatch});
  const Tensor rows = f.binary("AddV2", f.unary("ZerosLike", places), f.expand_dims(numbers, -1));
  const std::string width = f.node("AddV2", {longest, f.scalar(1)}, {attr("T", DType::i32)}, "z");
  const Tensor scattered =
      as_i32(f.node("ScatterNd",
                    {pack(rows.ref, places.ref, 2), state.at("tokens").ref, pack(f.axis(kBatch), width, 0)},
                    {attr("T", DType::i32), attr("Tindices", DType::i32)}, "output"),
             {kBatch, kMade});
  const Tensor made = columns(f, scattered, 0, longest);
  const Tensor within =
      as_bool(f.node("Less", {f.range(f.scalar(0), longest), f.expand_dims(lengths, -1).ref},
                     {attr("T", DType::i32)}, "z"),
              made.type.shape);
  return select(f, within, made, {ends.fill.ref, made.type});
}

}  // namespace

SavedFunction lower_speculative(std::vector<tensorflow::FunctionDef>& library, const std::string& name,
                                const DraftingFunctions& functions, const Chooser& chooser) {
  SavedFunction made{name,
                     {{"attention_mask", DType::i32, {-1, -1}},
                      {"input_ids", DType::i32, {-1, -1}},
                      {"max_new_tokens", DType::i32, {-1}}},
                     {{"accepted", DType::i32, {-1}},
                      {"drafted", DType::i32, {-1}},
                      {"lengths", DType::i32, {-1}},
                      {"tokens", DType::i32, {-1, -1}}},
                     all_captures({&functions.prefill, &functions.decode, &functions.prefill_draft,
                                   &functions.decode_draft})};
  FunctionBuilder f(name);
  NamedTensors inputs;
  for (const TensorSpec& input : made.inputs) inputs[input.name] = argument(f, input);
  const Handles handles = capture(f, made.captures, functions.variables);
  const Ends ends = chooser.ends(f, {});
  State state = begun(f, inputs, handles, functions, ends);
  const std::vector<size_t> captures = all_captures({&functions.decode, &functions.decode_draft});
  library.push_back(loop_condition(name + "_condition", state, captures, functions));
  library.push_back(loop_body(name + "_body", state, captures, functions, chooser));
  std::vector<Tensor> values;
  for (const auto& [key, tensor] : state) values.push_back(tensor);
  values = while_loop(f, name, std::move(values), captures, handles);
  size_t index = 0;
  for (auto& [key, tensor] : state) tensor = values[index++];
  for (const char* count : {"accepted", "drafted", "lengths"}) f.result(count, f.same(state.at(count)));
  f.result("tokens", f.same(gathered(f, state, ends)));
  library.push_back(f.finish());
  return made;
}

}  // namespace tandem
