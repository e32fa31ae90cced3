// What is lowered: rows, names, attributes. What it computes is compared in real frameworks (tests/).

#include "lower/tf/lower_tf.h"

#include <gmock/gmock.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "arch/architecture.h"
#include "contract/check.h"
#include "contract/ops/activation.h"
#include "contract/ops/registry.h"
#include "contract/text.h"
#include "lower/tf/activation.h"

namespace tandem {
namespace {

Json llama() {
  return {{"model_type", "llama"},       {"vocab_size", 11},        {"hidden_size", 8},
          {"num_hidden_layers", 2},      {"intermediate_size", 12}, {"num_attention_heads", 4},
          {"num_key_value_heads", 2},    {"attention_bias", true},  {"max_position_embeddings", 64},
          {"tie_word_embeddings", true}, {"rms_norm_eps", 1e-6}};
}

/// Three layers, the first dense, and one of multi-token prediction.
Json deepseek() {
  return {{"model_type", "deepseek_v3"},
          {"vocab_size", 11},
          {"hidden_size", 8},
          {"num_hidden_layers", 3},
          {"intermediate_size", 12},
          {"moe_intermediate_size", 6},
          {"num_attention_heads", 2},
          {"q_lora_rank", 5},
          {"kv_lora_rank", 7},
          {"qk_nope_head_dim", 4},
          {"qk_rope_head_dim", 2},
          {"v_head_dim", 3},
          {"first_k_dense_replace", 1},
          {"n_routed_experts", 6},
          {"n_shared_experts", 1},
          {"num_experts_per_tok", 2},
          {"n_group", 3},
          {"topk_group", 2},
          {"routed_scaling_factor", 2.5},
          {"rms_norm_eps", 1e-6},
          {"max_position_embeddings", 64},
          {"num_nextn_predict_layers", 1}};
}

/// The model of a config, lowered; `experts_in_chunk` cuts its stacks.
SavedModelSpec lowered(const Json& config, uint64_t experts_in_chunk = 0, DType storage = DType::bf16) {
  Model model = make_model(config).value();
  if (experts_in_chunk > 0)
    for (RuleRow& row : model.rules.rows)
      for (Step& step : row.steps)
        if (auto* stack = std::get_if<Stack>(&step)) stack->chunk = experts_in_chunk;
  const Contract contract =
      model.contract(model.rules, DType::f32, [&](const std::string&) { return storage; }).value();
  const Status checked = check(contract);
  EXPECT_TRUE(checked.ok()) << checked.error().message();
  return lower_to_tensorflow(contract, expand(model.rules)).value();
}

/// As --layout source has it: every kernel [out, in].
SavedModelSpec lowered_as_stored(const Json& config, DType storage, DType matmul_precision) {
  Model model = make_model(config).value();
  for (RuleRow& row : model.rules.rows)
    std::erase_if(row.steps, [](const Step& step) { return std::holds_alternative<Transpose>(step); });
  const Contract contract =
      model.contract(model.rules, DType::f32, [&](const std::string&) { return storage; }).value();
  return lower_to_tensorflow(contract, expand(model.rules), {.matmul_precision = matmul_precision}).value();
}

std::string bytes_of(const google::protobuf::Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

std::vector<std::string> paths(const SavedModelSpec& spec) {
  std::vector<std::string> names;
  for (const SavedVariable& variable : spec.variables) names.push_back(variable.path);
  return names;
}

const SavedVariable& variable(const SavedModelSpec& spec, const std::string& path) {
  const auto found = std::ranges::find(spec.variables, path, &SavedVariable::path);
  EXPECT_NE(found, spec.variables.end()) << path;
  return *found;
}

/// The library functions made of this block, without the loops of its attention.
std::vector<const tensorflow::FunctionDef*> functions_of(const SavedModelSpec& spec,
                                                         const std::string& block) {
  std::vector<const tensorflow::FunctionDef*> found;
  for (const tensorflow::FunctionDef& function : spec.library) {
    const std::string& name = function.signature().name();
    if (name.starts_with("__inference_" + block) && name.find("_attention_loop") == std::string::npos)
      found.push_back(&function);
  }
  return found;
}

size_t count_nodes(const tensorflow::FunctionDef& function, std::string_view op) {
  return static_cast<size_t>(
      std::ranges::count_if(function.node_def(), [&](const auto& node) { return node.op() == op; }));
}

TEST(LowerTf, EveryOpOfTheContractHasARow) {
  std::vector<std::string_view> known;
  for (const OpRow& op : ops()) known.push_back(op.name);
  EXPECT_THAT(tensorflow_ops(), testing::UnorderedElementsAreArray(known));
}

TEST(LowerTf, EveryActivationHasARow) {
  std::vector<std::string_view> known;
  for (const Activation& activation : activations()) known.push_back(activation.name);
  EXPECT_THAT(tensorflow_activations(), testing::UnorderedElementsAreArray(known));
}

TEST(LowerTf, AGeluInBf16IsComputedInF32) {
  Json config = llama();
  config["hidden_act"] = "gelu";
  const Model model = make_model(config).value();
  const Contract contract =
      model.contract(model.rules, DType::bf16, [](const std::string&) { return DType::bf16; }).value();
  const SavedModelSpec spec = lower_to_tensorflow(contract, expand(model.rules)).value();
  size_t found = 0;
  for (const tensorflow::NodeDef& node : functions_of(spec, "decoder_layer").back()->node_def())
    if (node.op() == "Erf") {
      ++found;
      EXPECT_EQ(node.attr().at("T").type(), tensorflow::DT_FLOAT);
    }
  EXPECT_EQ(found, 1u);
}

TEST(LowerTf, G03TheSameContractGivesTheSameBytesWhateverWasLoweredBefore) {
  const std::string first = bytes_of(assemble(lowered(deepseek())).value());
  const std::string other = bytes_of(assemble(lowered(llama())).value());
  EXPECT_NE(first, other);
  EXPECT_EQ(bytes_of(assemble(lowered(deepseek())).value()), first);
}

TEST(LowerTf, M01TheGraphOf671BillionParametersIsSmallAndHoldsNoWeight) {
  std::ifstream file(TANDEM_SOURCE_DIR "/tests/data/configs/deepseek-v3/config.json");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const SavedModelSpec spec = lowered(parse_json(text).value());
  for (const tensorflow::FunctionDef& function : spec.library)
    for (const tensorflow::NodeDef& node : function.node_def())
      EXPECT_TRUE(node.op() != "Const" || node.attr().at("value").ByteSizeLong() < 1000) << node.name();
  EXPECT_LT(assemble(spec).value().ByteSizeLong(), 20u << 20);
}

TEST(LowerTf, NodesHaveUniqueNamesAndReadWhatIsThere) {
  for (const SavedModelSpec& spec : {lowered(llama()), lowered(deepseek()), lowered(deepseek(), 4)}) {
    std::set<std::string> functions;
    for (const tensorflow::FunctionDef& function : spec.library) {
      const std::string& of = function.signature().name();
      EXPECT_TRUE(functions.insert(of).second) << of << " is there twice";
      std::set<std::string> names;
      for (const auto& argument : function.signature().input_arg())
        EXPECT_TRUE(names.insert(argument.name()).second) << of << ": " << argument.name();
      for (const auto& node : function.node_def())
        EXPECT_TRUE(names.insert(node.name()).second) << of << ": " << node.name();
      for (const auto& node : function.node_def())
        for (const std::string& input : node.input())
          EXPECT_TRUE(names.contains(input.substr(input[0] == '^' ? 1 : 0, input.find(':'))))
              << of << ": " << node.name() << " reads " << input;
    }
  }
}

TEST(LowerTf, OneFunctionABlockKindAndFormThatIsNotInlined) {
  const SavedModelSpec spec = lowered(deepseek());
  for (const std::string block : {"decoder_layer_dense", "decoder_layer_moe"}) {
    size_t forms = 0;  // attention in chunks, in chunks with taps, in one piece
    for (const tensorflow::FunctionDef* function : functions_of(spec, block)) {
      ++forms;
      EXPECT_TRUE(function->attr().contains("_noinline") && function->attr().at("_noinline").b())
          << function->signature().name();
    }
    EXPECT_EQ(forms, 3u) << block;
  }
}

TEST(LowerTf, SignaturesAndMethods) {
  const auto keys = [](const auto& map) {
    std::vector<std::string> names;
    for (const auto& [key, function] : map) names.push_back(key);
    return names;
  };
  const SavedModelSpec dense = lowered(llama());
  EXPECT_THAT(keys(dense.signatures),
              testing::ElementsAre("decode", "decode_xla", "generate", "generate_greedy", "input_ids_only",
                                   "layer_0", "layer_1", "next_logits", "next_tokens", "prefill",
                                   "prefill_xla", "score", "serving_default", "taps", "with_positions"));
  EXPECT_THAT(keys(dense.methods), testing::ElementsAre("__call__", "logits"));
  EXPECT_THAT(
      keys(lowered(deepseek()).signatures),
      testing::ElementsAre("decode", "decode_xla", "generate", "generate_greedy", "input_ids_only", "layer_0",
                           "layer_1", "layer_2", "logits_forced", "next_logits", "next_tokens", "prefill",
                           "prefill_xla", "score", "serving_default", "taps", "with_positions"));
}

TEST(LowerTf, AModelThatDraftsHasTheLoopAndTheDraftAndNoOtherSignatureMore) {
  const Model model = make_model(deepseek(), {{}, true}).value();
  const Contract contract =
      model.contract(model.rules, DType::f32, [](const std::string&) { return DType::bf16; }).value();
  const SavedModelSpec spec = lower_to_tensorflow(contract, expand(model.rules)).value();
  SavedModelSpec plain = lowered(deepseek());
  for (const char* more : {"draft", "generate_greedy_speculative"}) {
    EXPECT_TRUE(spec.signatures.contains(more)) << more;
    plain.signatures[more] = {};
  }
  EXPECT_EQ(spec.signatures.size(), plain.signatures.size());
  EXPECT_TRUE(assemble(spec).ok());
}

/// These functions and all that they reach, by name.
std::set<std::string> reached(const SavedModelSpec& spec, std::set<std::string> found) {
  for (size_t before = 0; before != found.size();) {
    before = found.size();
    for (const auto& function : spec.library)
      if (found.contains(function.signature().name()))
        for (const auto& node : function.node_def())
          for (const auto& [name, value] : node.attr())
            if (value.has_func()) found.insert(value.func().name());
  }
  return found;
}

/// The names of functions that calls with _XlaMustCompile reach.
std::set<std::string> compiled_functions(const SavedModelSpec& spec) {
  std::set<std::string> found;
  for (const auto& function : spec.library)
    for (const auto& node : function.node_def())
      if (node.attr().contains("_XlaMustCompile")) found.insert(node.attr().at("f").func().name());
  return reached(spec, std::move(found));
}

// XLA would copy every kernel that is cut out of a stack, and compute every expert on padded rows.
TEST(LowerTf, ExpertsAreLeftToStockKernelsInCompiledSignaturesAllElseIsCompiled) {
  for (const uint64_t chunk : {6, 4}) {
    const SavedModelSpec spec = lowered(deepseek(), chunk);
    const std::set<std::string> compiled = compiled_functions(spec);
    for (const std::string block : {"prefill_decoder_layer_moe", "step_decoder_layer_moe"}) {
      ASSERT_FALSE(functions_of(spec, block + "_experts").empty()) << block;
      ASSERT_FALSE(functions_of(spec, block + "_before").empty()) << block;
      const auto &experts = *functions_of(spec, block + "_experts").back(),
                 &before = *functions_of(spec, block + "_before").back();  // after its loops
      EXPECT_FALSE(compiled.contains(experts.signature().name()));
      EXPECT_TRUE(compiled.contains(before.signature().name()));
      EXPECT_EQ(count_nodes(experts, "MatMul") > 0, block.starts_with("prefill"))
          << "one token a row: a loop";
      EXPECT_GT(count_nodes(before, "MatMul"), 7u) << "attention, router and shared expert";
      for (const auto& input : before.signature().input_arg())
        EXPECT_EQ(input.name().find("mlp.experts"), std::string::npos) << input.name();
    }
  }
}

TEST(LowerTf, LayersAreCompiledByTheirCallsAndKeepTheirLoops) {
  const SavedModelSpec spec = lowered(deepseek());
  size_t calls = 0;
  for (const tensorflow::FunctionDef& function : spec.library)
    for (const tensorflow::NodeDef& node : function.node_def()) {
      if (!node.attr().contains("_XlaMustCompile")) continue;
      ++calls;
      const std::string& called = node.attr().at("f").func().name();
      for (const tensorflow::FunctionDef& block : spec.library)
        for (const tensorflow::NodeDef& inner : block.node_def())
          if (block.signature().name() == called && inner.op() == "While") {
            EXPECT_FALSE(inner.attr().contains("_lower_using_switch_merge")) << called;
          }
    }
  EXPECT_EQ(calls, 2u * 3);  // prefill_xla and decode_xla, three layers
}

/// Nodes that multiply bf16 and give f32, by function.
std::map<std::string, size_t> bf16_products(const SavedModelSpec& spec) {
  std::map<std::string, size_t> found;
  for (const auto& function : spec.library)
    for (const auto& node : function.node_def()) {
      if (node.op() != "BatchMatMulV3" || node.attr().at("Tb").type() != tensorflow::DT_BFLOAT16) continue;
      EXPECT_EQ(node.attr().at("Ta").type(), tensorflow::DT_BFLOAT16) << node.name();
      EXPECT_EQ(node.attr().at("Tout").type(), tensorflow::DT_FLOAT) << node.name();
      EXPECT_TRUE(node.attr().at("adj_y").b()) << node.name();
      ++found[function.signature().name()];
    }
  return found;
}

// Of the stock kernels for processors none multiplies bf16 and gives f32.
TEST(LowerTf, KernelsStoredInBf16AreMultipliedAsTheyAreInCompiledFunctionsOfDecodeXlaAlone) {
  for (const auto& [config, linears] :  // of a function, the head last
       std::vector<std::pair<Json, std::vector<size_t>>>{{llama(), {7, 1}}, {deepseek(), {7, 7, 1}}}) {
    const SavedModelSpec spec = lowered_as_stored(config, DType::bf16, DType::bf16);
    const std::set<std::string> compiled = compiled_functions(spec);
    const auto products = bf16_products(spec);
    std::vector<size_t> counts;
    for (const auto& [function, count] : products) {
      counts.push_back(count);
      EXPECT_TRUE(compiled.contains(function)) << function;
      for (const auto& [key, signature] : spec.signatures)
        EXPECT_EQ(reached(spec, {signature.function}).contains(function), key == "decode_xla")
            << function << " of " << key;
      for (const auto& [key, method] : spec.methods)
        EXPECT_FALSE(reached(spec, {method.function}).contains(function)) << function << " of " << key;
    }
    EXPECT_THAT(counts, testing::UnorderedElementsAreArray(linears));
  }
}

TEST(LowerTf, ElsewhereMatmulPrecisionChangesNoProduct) {
  EXPECT_TRUE(bf16_products(lowered_as_stored(llama(), DType::bf16, DType::f32)).empty());
  EXPECT_TRUE(bf16_products(lowered_as_stored(llama(), DType::f32, DType::bf16)).empty());
  Json untied = llama();  // the embedding is [out, in] in every layout
  untied["tie_word_embeddings"] = false;
  const Model model = make_model(untied).value();
  const Contract contract =
      model.contract(model.rules, DType::f32, [](const std::string&) { return DType::bf16; }).value();
  const auto spec = lower_to_tensorflow(contract, expand(model.rules), {.matmul_precision = DType::bf16});
  EXPECT_TRUE(bf16_products(spec.value()).empty());
}

TEST(LowerTf, VariablesAreNamedByPathOnceWhereTied) {
  const SavedModelSpec spec = lowered(llama());
  EXPECT_THAT(paths(spec), testing::Contains("model/layers/0/self_attn/q_proj/kernel"));
  EXPECT_THAT(paths(spec), testing::Contains("model/layers/1/self_attn/q_proj/bias"));
  EXPECT_THAT(paths(spec), testing::Contains("model/embed_tokens/weight"));
  EXPECT_THAT(paths(spec), testing::Not(testing::Contains("lm_head/kernel")));
  EXPECT_EQ(variable(spec, "model/layers/0/mlp/gate_proj/kernel").shape, (Shape{8, 12}));
}

TEST(LowerTf, TheRouterBiasIsNotTrainedAndCarriedLayersHaveNoVariable) {
  const SavedModelSpec spec = lowered(deepseek());
  for (const SavedVariable& v : spec.variables) {
    EXPECT_EQ(v.trainable, v.path.find("e_score_correction_bias") == std::string::npos) << v.path;
    EXPECT_EQ(v.path.find("layers/3"), std::string::npos) << v.path;
  }
  EXPECT_FALSE(variable(spec, "model/layers/1/mlp/gate/e_score_correction_bias").trainable);
}

TEST(LowerTf, AStackCutIntoChunksIsSeveralVariablesAndTheSameExperts) {
  const SavedModelSpec whole = lowered(deepseek()), cut = lowered(deepseek(), 4);
  EXPECT_EQ(variable(whole, "model/layers/1/mlp/experts/up_proj/kernel").shape, (Shape{6, 8, 6}));
  EXPECT_EQ(variable(cut, "model/layers/1/mlp/experts/up_proj/kernel_0").shape, (Shape{4, 8, 6}));
  EXPECT_EQ(variable(cut, "model/layers/1/mlp/experts/up_proj/kernel_1").shape, (Shape{2, 8, 6}));
  EXPECT_EQ(cut.variables.size(), whole.variables.size() + 2 * 3);

  const auto& whole_layer = *functions_of(whole, "decoder_layer_moe").back();
  const auto& cut_layer = *functions_of(cut, "decoder_layer_moe").back();
  EXPECT_EQ(count_nodes(whole_layer, "Unpack"), 3u);
  EXPECT_EQ(count_nodes(cut_layer, "Unpack"), 6u);
  EXPECT_EQ(count_nodes(cut_layer, "MatMul"), count_nodes(whole_layer, "MatMul"));
}

// TensorFlow's Python refuses it when the model is loaded, the C API when it runs.
TEST(LowerTf, NothingIsJoinedOfOnePart) {
  Json one_expert = deepseek();
  one_expert["num_experts_per_tok"] = 1;
  Json one_layer = llama();
  one_layer["num_hidden_layers"] = 1;
  for (const Json& config : {one_expert, one_layer, deepseek()}) {
    size_t joins = 0;
    const SavedModelSpec spec = lowered(config);
    for (const auto& function : spec.library)
      for (const auto& node : function.node_def()) {
        if (node.op() != "ConcatV2") continue;
        ++joins;
        EXPECT_GE(node.attr().at("N").i(), 2) << function.signature().name() << ": " << node.name();
      }
    EXPECT_GT(joins, 0u);
  }
}

/// Does a value of a function hang on what its inputs hold, and not on their shapes alone?
bool hangs_on_values(const tensorflow::FunctionDef& function, const std::string& value) {
  std::map<std::string, const tensorflow::NodeDef*> nodes;
  for (const auto& node : function.node_def()) nodes[node.name()] = &node;
  std::vector<std::string> open{value};
  std::set<std::string> seen;
  while (!open.empty()) {
    const std::string name = open.back().substr(0, open.back().find(':'));
    open.pop_back();
    if (!seen.insert(name).second) continue;
    const auto node = nodes.find(name);
    if (node == nodes.end()) return true;  // an argument
    if (node->second->op() == "Shape") continue;
    open.insert(open.end(), node->second->input().begin(), node->second->input().end());
  }
  return false;
}

// XLA makes the bounds of a StridedSlice, and all that they are computed from, part of what it compiles for:
// one that hung on a router's choice meant a compilation a token.
TEST(LowerTf, NoBoundOfACompiledSliceIsComputedFromValues) {
  for (const Json& config : {llama(), deepseek()}) {
    const SavedModelSpec spec = lowered(config);
    const std::set<std::string> compiled = compiled_functions(spec);
    ASSERT_FALSE(compiled.empty());
    size_t slices = 0;
    for (const auto& function : spec.library) {
      if (!compiled.contains(function.signature().name())) continue;
      for (const auto& node : function.node_def()) {
        if (node.op() != "StridedSlice") continue;
        ++slices;
        for (const int bound : {1, 2})
          EXPECT_FALSE(hangs_on_values(function, node.input(bound)))
              << function.signature().name() << ": " << node.name();
      }
    }
    EXPECT_GT(slices, 0u);
  }
}

TEST(LowerTf, StoredInAnotherTypeEachExpertIsCastAloneAndTheStackNever) {
  const auto casts_of_stacks = [](const SavedModelSpec& spec) {
    size_t casts = 0;
    const auto& layer = *functions_of(spec, "decoder_layer_moe").back();
    std::map<std::string, std::string> op_of;
    for (const auto& node : layer.node_def()) op_of[node.name()] = node.op();
    for (const auto& node : layer.node_def())
      if (node.op() == "Cast") casts += op_of[node.input(0).substr(0, node.input(0).find(':'))] == "Unpack";
    return casts;
  };
  EXPECT_EQ(casts_of_stacks(lowered(deepseek(), 0, DType::bf16)), 3u * 6);
  EXPECT_EQ(casts_of_stacks(lowered(deepseek(), 0, DType::f32)), 0u);
}

TEST(LowerTf, C1AnOpWithoutARowIsNamed) {
  Contract contract = parse_contract(
                          "contract 1\n"
                          "compute f32\n"
                          "entry logits(x: f32[batch, tokens, 3]) {\n"
                          "  y = add(x, x)\n"
                          "  return y\n"
                          "}\n")
                          .value();
  contract.entries[0].nodes[0].op = "gelu";
  EXPECT_EQ(lower_to_tensorflow(contract, {}).error().message(),
            "lower_tf_c1: no TensorFlow lowering for gelu in logits");
  contract.entries[0].nodes[0].op = "activation_gate";
  contract.entries[0].nodes[0].attributes = {{"hidden_act", std::string("mish")}};
  EXPECT_EQ(lower_to_tensorflow(contract, {}).error().message(),
            "lower_tf_c1: no TensorFlow lowering for mish in logits");
}

TEST(LowerTf, C2AContractNeedsTheEntryLogits) {
  EXPECT_EQ(lower_to_tensorflow(Contract{}, {}).error().rule, "lower_tf_c2");
}

TEST(LowerTf, C3AWeightHasFewerThan2To31Elements) {
  Contract contract;
  contract.weights.push_back({"model.embed_tokens.weight", DType::bf16, {1 << 16, 1 << 15}});
  EXPECT_EQ(
      lower_to_tensorflow(contract, {}).error().message(),
      "lower_tf_c3: model.embed_tokens.weight has shape [65536, 32768], expected at most 2^31 - 1 elements "
      "in "
      "one tensor (several TensorFlow kernels count in 32 bits; a stack can be cut with a smaller chunk)");
  contract.weights[0].shape[1] -= 1;
  EXPECT_EQ(lower_to_tensorflow(contract, {}).error().rule, "lower_tf_c2");
}

}  // namespace
}  // namespace tandem
