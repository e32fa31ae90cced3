#include "lower/tf/lower_tf.h"

#include <algorithm>
#include <set>

#include "contract/cached.h"
#include "contract/check.h"
#include "lower/tf/activation.h"
#include "lower/tf/experts_apart.h"
#include "lower/tf/generate.h"
#include "lower/tf/linears_apart.h"
#include "lower/tf/lower_ops.h"

namespace tandem {
namespace {

/// One form of a block or entry: attention in chunks or not, every tap returned or not; blocks compiled by
/// XLA or not, and how exactly their linears multiply.
struct Form {
  bool chunked = false;
  bool with_taps = false;
  bool compiled = false;
  DType matmul_precision = DType::f32;
};

using Named = std::vector<std::pair<std::string, Tensor>>;

class Lowering {
 public:
  Lowering(const Contract& contract, std::vector<SavedVariable> variables, const LowerTfOptions& options)
      : contract_(contract), options_(options) {
    spec_.variables = std::move(variables);
    for (const WeightEntry& weight : contract.weights) variables_.emplace(weight.name, variables_.size());
  }

  void signature(const std::string& key, const Block& entry, Form form) {
    spec_.signatures[key] = entry_function(key, entry, form);
  }
  /// Loops are functions too: attention is in one piece.
  void inlined_signature(const std::string& key, const Block& entry) {
    signature(key, entry, {});
    spec_.signatures.at(key).inlined = true;
  }
  void method(const std::string& name, const Block& entry) {
    spec_.methods[name] = entry_function("method" + name, entry, {});
  }

  /// Signatures made of other signatures; they take ids and logits, which a stage has not both.
  void composed() {
    const auto name = [&](const std::string& key) { return new_name(key); };
    spec_.signatures["score"] =
        lower_score(spec_.library, name("score"), spec_.signatures.at("serving_default"), spec_.variables);
    if (!spec_.signatures.contains("decode")) return;
    const StepFunctions steps{spec_.signatures.at("prefill"), spec_.signatures.at("decode"), spec_.variables};
    spec_.signatures["next_logits"] = lower_next_logits(spec_.library, name("next_logits"), steps);
    spec_.signatures["next_tokens"] = lower_next_tokens(spec_.library, name("next_tokens"), steps);
    const auto loop = [&](const std::string& key, const Chooser& chooser) {
      spec_.signatures[key] = lower_generate(spec_.library, name(key), steps, chooser);
    };
    loop("generate_greedy", *greedy_chooser(options_.eos_token_ids));
    loop("generate", *drawing_chooser(spec_.library, "__inference_generate"));
    if (find_entry(contract_, "decode_two")) speculative();
  }

  SavedModelSpec finish() && { return std::move(spec_); }

 private:
  void speculative() {
    const auto function = [&](const char* entry) {
      return entry_function(entry, *find_entry(contract_, entry), {true, false});
    };
    const SavedFunction prefill = function("prefill_hidden"), decode = function("decode_two"),
                        prefill_draft = function("prefill_draft"), decode_draft = function("decode_draft");
    spec_.signatures["generate_greedy_speculative"] =
        lower_speculative(spec_.library, new_name("generate_greedy_speculative"),
                          {prefill, decode, prefill_draft, decode_draft, spec_.variables},
                          *greedy_chooser(options_.eos_token_ids));
  }

  /// The contract weights that an entry reaches, in the order of their first use.
  std::vector<std::string> captured(const Block& entry) const {
    std::vector<std::string> names;
    std::set<std::string> seen;
    const auto add = [&](const std::string& name) {
      if (seen.insert(name).second) names.push_back(name);
    };
    for (const Node& node : entry.nodes) {
      for (const Operand& operand : node.inputs)
        if (operand.is_weight) add(operand.name);
      if (node.op == "call")
        for (const Parameter& weight : find_block(contract_, string_attribute(node, "block"))->weights)
          add(place(node, weight.name));
    }
    return names;
  }

  static std::string place(const Node& call, const std::string& name) {
    const std::string& at = string_attribute(call, "at");
    return at.empty() ? name : at + "." + name;
  }

  std::string new_name(const std::string& stem) { return fmt::format("__inference_{}_{}", stem, counter_++); }

  SavedFunction entry_function(const std::string& stem, const Block& entry, Form form) {
    std::vector<Parameter> inputs = entry.inputs;  // TensorFlow orders keyword arguments by name
    std::ranges::sort(inputs, {}, &Parameter::name);
    FunctionBuilder f(new_name(stem));
    SavedFunction function;
    function.function = fmt::format("__inference_{}_{}", stem, counter_ - 1);
    std::map<std::string, TfOperand> values, weights;
    for (const Parameter& input : inputs) {
      values[input.name] = {f.argument(input.name, input.type), {}};
      function.inputs.push_back({input.name, input.type.dtype, static_shape(input.type)});
    }
    for (const std::string& name : captured(entry)) {
      const size_t index = variables_.at(name);
      const SavedVariable& variable = spec_.variables[index];
      const std::vector<int64_t> shape(variable.shape.begin(), variable.shape.end());
      TensorType type{contract_.compute, {variable.shape.begin(), variable.shape.end()}};
      weights[name] = {{f.resource(name, variable.dtype, shape), type}, variable.dtype};
      function.captures.push_back(index);
    }
    Named taps;
    emit(f, entry, values, weights, "", form, taps);
    write_results(f, entry, values, form.with_taps ? taps : Named{}, function);
    spec_.library.push_back(f.finish());
    return function;
  }

  void write_results(FunctionBuilder& f, const Block& entry, std::map<std::string, TfOperand>& values,
                     const Named& taps, SavedFunction& function) {
    const ValueTypes types = infer_types(contract_, entry).value();
    std::map<std::string, std::pair<TensorType, Tensor>>
        results;  // sorted by name, as TensorFlow orders a dictionary
    for (const std::string& name : entry.results) results[name] = {types.at(name), values.at(name).tensor};
    if (!taps.empty()) {
      std::map<std::string, TensorType> tap_types;
      const std::vector<Parameter> declared = tandem::taps(contract_, entry).value();
      for (const Parameter& tap : declared) tap_types[tap.name] = tap.type;
      for (const auto& [name, tensor] : taps) results[name] = {tap_types.at(name), tensor};
    }
    f.scope("outputs");
    for (const auto& [name, result] : results) {
      function.outputs.push_back({name, result.first.dtype, static_shape(result.first)});
      f.result(name, f.same({result.second.ref, result.first}));
    }
  }

  /// Emits a block's nodes; `values` grows by every value, `taps` by every tap under its full name.
  void emit(FunctionBuilder& f, const Block& block, std::map<std::string, TfOperand>& values,
            const std::map<std::string, TfOperand>& weights, const std::string& prefix, Form form,
            Named& taps) {
    LowerContext context{&spec_.library, form.chunked ? options_.query_chunk : 0,
                         fmt::format("__inference_{}_{}", block.name, counter_), form.compiled,
                         form.matmul_precision};
    std::vector<std::string> places;
    for (const Node& node : block.nodes) {
      f.scope(node.tap.empty() ? node.outputs[0] : node.tap);
      std::vector<TfOperand> inputs;
      for (const Operand& operand : node.inputs)
        inputs.push_back((operand.is_weight ? weights : values).at(operand.name));
      const std::vector<Tensor> outputs = node.op == "call"
                                              ? call(f, node, inputs, weights, form, taps)
                                              : find_lowering(node.op)(f, node, inputs, context);
      for (size_t i = 0; i < outputs.size(); ++i) {
        values[node.outputs[i]] = {outputs[i], {}};
        places.push_back(
            fmt::format("{} {} {}", node.outputs[i], row(outputs[i].type.dtype).tensorflow, outputs[i].ref));
      }
      if (!node.tap.empty()) taps.push_back({prefix + node.tap, outputs[0]});
    }
    f.set_node_attribute(attr(std::string(kValuesAttribute), places));
    f.scope("");
  }

  std::vector<Tensor> call(FunctionBuilder& f, const Node& node, const std::vector<TfOperand>& inputs,
                           const std::map<std::string, TfOperand>& weights, Form form, Named& taps) {
    const Block& block = *find_block(contract_, string_attribute(node, "block"));
    form.compiled = form.compiled && !has_experts(block);
    if (!form.compiled) form.matmul_precision = DType::f32;
    std::vector<std::string> refs;
    std::vector<DType> explicit_types, storages, output_types;
    for (const TfOperand& input : inputs) {
      const Tensor tensor = f.use(input);
      refs.push_back(tensor.ref);
      explicit_types.push_back(tensor.type.dtype);
    }
    for (const Parameter& weight : block.weights) {
      const TfOperand& handle = weights.at(place(node, weight.name));
      refs.push_back(handle.tensor.ref);
      storages.push_back(*handle.storage);
    }
    const BlockFunction& function = block_function(block, storages, form);
    for (const TensorType& type : function.results) output_types.push_back(type.dtype);
    for (const auto& [name, type] : function.taps) output_types.push_back(type.dtype);
    const std::string ref = f.call(function.name, refs, explicit_types, storages.size(), output_types);
    // On the call, where a session sees it; all calls of one function share what is compiled for a shape.
    if (form.compiled) f.set_last_node_attribute(attr("_XlaMustCompile", true));
    std::vector<Tensor> outputs;
    for (size_t i = 0; i < function.results.size(); ++i)
      outputs.push_back({FunctionBuilder::nth(ref, static_cast<int>(i)), function.results[i]});
    for (size_t i = 0; i < function.taps.size(); ++i) {
      const int index = static_cast<int>(function.results.size() + i);
      taps.push_back(
          {place(node, function.taps[i].first), {FunctionBuilder::nth(ref, index), function.taps[i].second}});
    }
    return outputs;
  }

  /// A block as a library function: once for each form and each set of storage dtypes that its weights are
  /// kept in.
  struct BlockFunction {
    std::string name;
    std::vector<TensorType> results;
    std::vector<std::pair<std::string, TensorType>> taps;
  };
  const BlockFunction& block_function(const Block& block, const std::vector<DType>& storages, Form form) {
    std::string key = fmt::format("{}/{}/{}/{}/{}", block.name, form.chunked, form.with_taps, form.compiled,
                                  name(form.matmul_precision));
    for (const DType storage : storages) key += "/" + std::string(name(storage));
    const auto found = functions_.find(key);
    if (found != functions_.end()) return found->second;

    BlockFunction made{new_name(block.name), {}, {}};
    FunctionBuilder f(made.name);
    // Inlined, sixty layers would be handed to the optimiser as one graph of ten thousand nodes.
    f.set_attribute(attr("_noinline", true));
    std::map<std::string, TfOperand> values, weights;
    for (const Parameter& input : block.inputs) values[input.name] = {f.argument(input.name, input.type), {}};
    for (size_t i = 0; i < block.weights.size(); ++i) {
      const Parameter& weight = block.weights[i];
      weights[weight.name] = {{f.resource(weight.name, storages[i], static_shape(weight.type)), weight.type},
                              storages[i]};
    }
    Named taps;
    emit(f, block, values, weights, "", form, taps);
    const ValueTypes types = infer_types(contract_, block).value();
    f.scope("outputs");
    for (const std::string& result : block.results) {
      f.result(result, f.same(values.at(result).tensor));
      made.results.push_back(types.at(result));
    }
    if (form.with_taps)
      for (const auto& [name, tensor] : taps) {
        f.result("tap_" + name, f.same(tensor));
        made.taps.push_back({name, tensor.type});
      }
    spec_.library.push_back(f.finish());
    return functions_[key] = std::move(made);
  }

  const Contract& contract_;
  const LowerTfOptions& options_;
  SavedModelSpec spec_;
  std::map<std::string, size_t> variables_;  // contract weight to index in spec_.variables
  std::map<std::string, BlockFunction> functions_;
  int counter_ = 0;
};

/// The same entry under another name, with one input computed instead of given.
Block computed_input(Block entry, std::string name, std::string_view input, Node node) {
  entry.name = std::move(name);
  std::erase_if(entry.inputs, [&](const Parameter& p) { return p.name == input; });
  entry.nodes.insert(entry.nodes.begin(), std::move(node));
  return entry;
}

constexpr std::string_view kDefault = "serving_default";
constexpr std::string_view kIdsOnly = "input_ids_only";
constexpr std::string_view kDecodeXla = "decode_xla";

/// Of a signature for inference.
Form form_of(std::string_view entry, const LowerTfOptions& options) {
  if (!entry.ends_with("_xla")) return {true, false};
  return {true, false, true, entry == kDecodeXla ? options.matmul_precision : DType::f32};
}
/// Entries that are parts of signatures alone.
constexpr std::string_view kNoSignatures[] = {"step", "prefill_hidden", "decode_two", "prefill_draft",
                                              "decode_draft"};

/// The contract with two more entries: positions made from the mask, and a mask of ones.
Contract with_serving_entries(Contract contract) {
  const Block logits = *find_entry(contract, "logits");
  const Block masked = computed_input(logits, std::string(kDefault), "position_ids",
                                      {"positions", {{"attention_mask", false}}, {}, {"position_ids"}, ""});
  const Attributes ones{{"value", int64_t{1}}, {"last", std::vector<int64_t>{}}};
  contract.entries.push_back(masked);
  if (std::ranges::count(logits.inputs, "input_ids", &Parameter::name) == 0) return contract;
  contract.entries.push_back(
      computed_input(masked, std::string(kIdsOnly), "attention_mask",
                     {"fill_like", {{"input_ids", false}}, ones, {"attention_mask"}, ""}));
  return contract;
}

/// With the entries that keep a cache, where the model can be cut into steps.
Result<Contract> with_steps(const Contract& contract) {
  Result<Contract> cached = with_cached_entries(contract);
  if (!cached.ok() && cached.error().kind == ErrorKind::unsupported) return contract;
  return cached;
}

Status has_lowerings(const Contract& contract) {
  std::vector<std::string> missing;
  const auto acts = tensorflow_activations();
  const auto visit = [&](const Block& block) {
    for (const Node& node : block.nodes) {
      if (node.op != "call" && !find_lowering(node.op)) missing.push_back(node.op + " in " + block.name);
      if (!find_attribute(node, "hidden_act")) continue;
      const std::string& hidden_act = string_attribute(node, "hidden_act");
      if (std::ranges::count(acts, hidden_act) == 0) missing.push_back(hidden_act + " in " + block.name);
    }
  };
  std::for_each(contract.blocks.begin(), contract.blocks.end(), visit);
  std::for_each(contract.entries.begin(), contract.entries.end(), visit);
  if (missing.empty()) return {};
  return unsupported("lower_tf_c1", "no TensorFlow lowering for {}", fmt::join(missing, ", "));
}

/// Several kernels (GatherV2, Transpose) count a tensor's elements in 32 bits.
Status countable(const Contract& contract) {
  for (const WeightEntry& weight : contract.weights) {
    const auto elements = element_count(weight.shape);
    if (elements.ok() && elements.value() <= INT32_MAX) continue;
    return unsupported("lower_tf_c3", "{} has shape {}, expected at most 2^31 - 1 elements in one tensor",
                       weight.name, to_string(weight.shape))
        .because("several TensorFlow kernels count in 32 bits; a stack can be cut with a smaller chunk");
  }
  return {};
}

std::vector<SavedVariable> variables_of(const Contract& contract, const std::vector<TensorPlan>& plans) {
  std::map<std::string_view, std::string_view> paths;
  for (const TensorPlan& plan : plans) paths[plan.contract_name] = plan.tf;
  std::vector<SavedVariable> variables;
  for (const WeightEntry& weight : contract.weights)
    variables.push_back({std::string(paths.at(weight.name)), weight.storage, weight.shape, weight.trainable});
  return variables;
}

}  // namespace

Result<Lowerable> lowerable(const Contract& contract, const std::vector<TensorPlan>& plans,
                            const LowerTfOptions& options) {
  TANDEM_CHECK(has_lowerings(contract));
  TANDEM_CHECK(countable(contract));
  if (!find_entry(contract, "logits")) return bug("lower_tf_c2", "the contract has no entry \"logits\"");
  TANDEM_TRY(Contract steps, with_steps(contract));
  if (options.layers) {
    TANDEM_TRY(steps, stage_of(steps, *options.layers));
  }
  std::vector<SavedVariable> variables = variables_of(steps, plans);
  return Lowerable{std::move(steps), options, std::move(variables)};
}

SavedModelSpec lower(Lowerable model) {
  const LowerTfOptions& options = model.options;
  Contract extended = with_experts_apart(with_serving_entries(std::move(model.contract)));
  if (options.matmul_precision != DType::f32) extended = with_linears_apart(std::move(extended), kDecodeXla);
  Lowering lowering(extended, std::move(model.variables), options);
  for (const Block& entry : extended.entries)
    if (std::ranges::count(kNoSignatures, entry.name) == 0)
      lowering.signature(entry.name == "logits" ? "with_positions" : entry.name, entry,
                         form_of(entry.name, options));
  if (options.inlined) lowering.inlined_signature(std::string(kDefault), *find_entry(extended, kDefault));
  const Block& logits = *find_entry(extended, "logits");
  lowering.signature("taps", logits, {true, true});
  const bool takes_ids = find_entry(extended, kIdsOnly), gives_logits = logits.results[0] == "logits";
  if (takes_ids && gives_logits) lowering.composed();
  lowering.method("__call__", *find_entry(extended, kDefault));
  if (gives_logits) lowering.method("logits", logits);
  return std::move(lowering).finish();
}

Result<SavedModelSpec> lower_to_tensorflow(const Contract& contract, const std::vector<TensorPlan>& plans,
                                           const LowerTfOptions& options) {
  TANDEM_TRY(Lowerable model, lowerable(contract, plans, options));
  return lower(std::move(model));
}

}  // namespace tandem
