#include "arch/deepseek_v3/deepseek_v3.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>

#include "contract/check.h"

namespace tandem {
namespace {

Json config() {
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
          {"n_shared_experts", 2},
          {"num_experts_per_tok", 2},
          {"n_group", 3},
          {"topk_group", 2},
          {"routed_scaling_factor", 2.5},
          {"rms_norm_eps", 1e-6},
          {"max_position_embeddings", 64}};
}

Json with(const std::string& key, const Json& value) {
  Json changed = config();
  changed[key] = value;
  return changed;
}

std::string problem(const Json& json) {
  const auto model = make_model(json);
  return model.ok() ? "" : model.error().text;
}

Contract contract_of(const Json& json) {
  const Model model = make_model(json).value();
  Contract contract =
      model.contract(model.rules, DType::f32, [](const std::string&) { return DType::f32; }).value();
  const Status checked = check(contract);
  EXPECT_TRUE(checked.ok()) << checked.error().message();
  return contract;
}

/// Hugging Face names of one layer, without "model.layers.N."; experts as one line each projection.
std::vector<std::string> layer(const Json& json, const std::string& index) {
  std::vector<std::string> names;
  const Model model = make_model(json).value();
  const std::string place = "model.layers." + index + ".";
  for (const TensorPlan& plan : expand(model.rules))
    if (plan.contract_name.starts_with(place)) names.push_back(plan.contract_name.substr(place.size()));
  return names;
}

const std::vector<std::string> kAttention{
    "input_layernorm.weight",          "post_attention_layernorm.weight",
    "self_attn.q_a_proj.weight",       "self_attn.q_a_layernorm.weight",
    "self_attn.q_b_proj.weight",       "self_attn.kv_a_proj_with_mqa.weight",
    "self_attn.kv_a_layernorm.weight", "self_attn.kv_b_proj.weight",
    "self_attn.o_proj.weight"};
const std::vector<std::string> kDense{"mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight"};
const std::vector<std::string> kMixture{"mlp.gate.weight",
                                        "mlp.gate.e_score_correction_bias",
                                        "mlp.experts.gate_proj.weight",
                                        "mlp.experts.up_proj.weight",
                                        "mlp.experts.down_proj.weight",
                                        "mlp.shared_experts.gate_proj.weight",
                                        "mlp.shared_experts.up_proj.weight",
                                        "mlp.shared_experts.down_proj.weight"};

std::vector<std::string> joined(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(DeepseekV3, R12TheFirstLayersAreDenseTheOthersAreMixtures) {
  EXPECT_THAT(layer(config(), "0"), testing::UnorderedElementsAreArray(joined(kAttention, kDense)));
  EXPECT_THAT(layer(config(), "1"), testing::UnorderedElementsAreArray(joined(kAttention, kMixture)));
  for (const uint64_t dense : {0, 1, 2, 3, 5}) {
    const Model model = make_model(with("first_k_dense_replace", dense)).value();
    EXPECT_EQ(model.moe_layers, 3 - std::min<uint64_t>(dense, 3));
    const Contract contract = contract_of(with("first_k_dense_replace", dense));
    EXPECT_EQ(find_block(contract, "decoder_layer_dense") != nullptr, dense > 0);
    EXPECT_EQ(find_block(contract, "decoder_layer_moe") != nullptr, dense < 3);
    EXPECT_EQ(find_entry(contract, "logits_forced") != nullptr, dense < 3);
  }
}

TEST(DeepseekV3, R12SharedExpertsAreOneMlpAsWideAsAll) {
  const Contract contract = contract_of(config());
  EXPECT_EQ(find_weight(contract, "model.layers.1.mlp.shared_experts.up_proj.weight")->shape,
            (Shape{8, 2 * 6}));
  EXPECT_EQ(find_weight(contract, "model.layers.1.mlp.experts.up_proj.weight")->shape, (Shape{6, 8, 6}));
  EXPECT_EQ(find_weight(contract, "model.layers.0.mlp.up_proj.weight")->shape, (Shape{8, 12}));
}

TEST(DeepseekV3, N15ANullRankIsOneQueryProjection) {
  const std::vector<std::string> names = layer(with("q_lora_rank", nullptr), "0");
  EXPECT_THAT(names, testing::Contains("self_attn.q_proj.weight"));
  EXPECT_THAT(names, testing::Not(testing::Contains(testing::HasSubstr("q_a"))));
  EXPECT_EQ(names.size(), kAttention.size() + kDense.size() - 2);
  EXPECT_EQ(
      find_weight(contract_of(with("q_lora_rank", nullptr)), "model.layers.0.self_attn.q_proj.weight")->shape,
      (Shape{8, 2 * (4 + 2)}));

  Json absent = config();
  absent.erase("q_lora_rank");
  EXPECT_EQ(problem(absent), "q_lora_rank is missing, expected a rank, or null for a plain q_proj");
}

TEST(DeepseekV3, N13LayerNumbersComeFromTheConfig) {
  Json deep = with("num_hidden_layers", 63);
  const Model plain = make_model(deep).value();
  EXPECT_EQ(plain.carried_parameters, 0u);
  EXPECT_EQ(layer(deep, "61").size(), kAttention.size() + kMixture.size());
  EXPECT_EQ(layer(deep, "62").size(), kAttention.size() + kMixture.size());
  EXPECT_THAT(layer(deep, "63"), testing::IsEmpty());

  deep["num_nextn_predict_layers"] = 1;
  const std::vector<std::string> own{
      "embed_tokens.weight",     "enorm.weight",           "hnorm.weight", "eh_proj.weight",
      "shared_head.norm.weight", "shared_head.head.weight"};
  EXPECT_THAT(layer(deep, "63"),
              testing::UnorderedElementsAreArray(joined(joined(kAttention, kMixture), own)));
  EXPECT_EQ(make_model(deep).value().parameters, plain.parameters);
  EXPECT_GT(make_model(deep).value().carried_parameters, 0u);
}

TEST(DeepseekV3, CarriedLayersAreNoWeightsOfTheContract) {
  const Contract contract = contract_of(with("num_nextn_predict_layers", 2));
  for (const WeightEntry& weight : contract.weights) {
    EXPECT_FALSE(weight.name.starts_with("model.layers.3.")) << weight.name;
    EXPECT_FALSE(weight.name.starts_with("model.layers.4.")) << weight.name;
  }
  EXPECT_EQ(find_entry(contract, "layer_3"), nullptr);
}

TEST(DeepseekV3, OnWishTheFirstPredictionLayerIsRun) {
  const Model model = make_model(with("num_nextn_predict_layers", 2), {{}, true}).value();
  const Contract contract =
      model.contract(model.rules, DType::f32, [](const std::string&) { return DType::f32; }).value();
  EXPECT_TRUE(check(contract).ok());
  ASSERT_NE(find_entry(contract, "draft"), nullptr);
  EXPECT_EQ(find_weight(contract, "model.layers.3.eh_proj.weight")->shape, (Shape{16, 8}));
  EXPECT_EQ(find_weight(contract, "model.layers.4.eh_proj.weight"), nullptr);
  for (const RuleRow& row : model.rules.rows)
    EXPECT_EQ(row.in_graph, row.holes.count("layer") == 0 || row.holes.at("layer").begin < 4) << row.hf;
}

TEST(DeepseekV3, D08TheRouterBiasStaysF32AndIsNotTrained) {
  size_t rows = 0;
  for (const RuleRow& row : make_model(with("num_nextn_predict_layers", 1)).value().rules.rows)
    if (row.hf.ends_with("e_score_correction_bias")) {
      ++rows;
      EXPECT_EQ(row.dtype, "f32");
      EXPECT_FALSE(row.trainable);
    }
  EXPECT_EQ(rows, 2u);
}

TEST(DeepseekV3, CountsOfV3) {
  std::ifstream file(TANDEM_SOURCE_DIR "/tests/data/configs/deepseek-v3/config.json");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const Model model = make_model(parse_json(text).value()).value();
  EXPECT_EQ(model.parameters, 671'026'419'200u);
  EXPECT_EQ(model.active_parameters, 37'552'297'472u);
  // The published 11.6 billion of the prediction layer, and its own copies of embedding and head.
  EXPECT_EQ(model.carried_parameters, 11'610'068'224u + 2 * 129280u * 7168u);
  for (const TensorPlan& plan : expand(model.rules))
    EXPECT_LT(element_count(plan.tf_shape).value(), 1ull << 31) << plan.tf;
}

TEST(DeepseekV3, StacksOf2To31ElementsAreCut) {
  Json wide = config();
  wide["hidden_size"] = wide["moe_intermediate_size"] = 1 << 15;  // 2^30 elements an expert: only one fits
  const Contract contract = contract_of(wide);
  EXPECT_EQ(find_weight(contract, "model.layers.1.mlp.experts.up_proj.weight.5")->shape,
            (Shape{1, 1 << 15, 1 << 15}));
  EXPECT_EQ(find_weight(contract, "model.layers.1.mlp.experts.up_proj.weight.6"), nullptr);
}

TEST(DeepseekV3, C1Experts) {
  EXPECT_THAT(problem(with("n_routed_experts", 0)),
              testing::HasSubstr("n_routed_experts is 0, expected a whole number from 1 to 16384"));
  EXPECT_EQ(problem(with("num_experts_per_tok", 5)),
            "num_experts_per_tok is 5, expected at most 4, the experts in topk_group groups");
  EXPECT_EQ(problem(with("num_experts_per_tok", 7)),
            "num_experts_per_tok is 7, expected at most 4, the experts in topk_group groups");
  EXPECT_EQ(problem(with("n_group", 4)), "n_group is 4, expected a divisor of n_routed_experts = 6");
  EXPECT_EQ(problem(with("n_group", 6)), "n_group is 6, expected at least two experts in each group of 6");
  EXPECT_EQ(problem(with("topk_group", 4)), "topk_group is 4, expected at most n_group = 3");
}

TEST(DeepseekV3, C1OtherFamiliesRoutingIsRefused) {
  EXPECT_EQ(problem(with("scoring_func", "softmax")), "scoring_func is \"softmax\", expected \"sigmoid\"");
  EXPECT_EQ(problem(with("topk_method", "greedy")), "topk_method is \"greedy\", expected \"noaux_tc\"");
  EXPECT_EQ(problem(with("moe_layer_freq", 2)),
            "moe_layer_freq is 2, expected 1 (every layer from first_k_dense_replace on has experts)");
}

TEST(DeepseekV3, C1KeysThatRepeatOthersAgree) {
  EXPECT_EQ(problem(with("num_key_value_heads", 1)),
            "num_key_value_heads is 1, expected 2 (latent attention has one key for each query head)");
  EXPECT_EQ(problem(with("qk_head_dim", 7)),
            "qk_head_dim is 7, expected 6 (qk_nope_head_dim + qk_rope_head_dim)");
  EXPECT_EQ(problem(with("head_dim", 4)), "head_dim is 4, expected 2 (qk_rope_head_dim)");
  EXPECT_EQ(problem(with("qk_rope_head_dim", 3)), "qk_rope_head_dim is 3, expected an even number");
}

TEST(DeepseekV3, C1Quantization) {
  const Json fp8{{"quant_method", "fp8"},
                 {"fmt", "e4m3"},
                 {"weight_block_size", {4u, 4u}},
                 {"activation_scheme", "dynamic"}};
  EXPECT_EQ(problem(with("quantization_config", fp8)), "");
  Json other = fp8;
  other["quant_method"] = "gptq";
  other["weight_block_size"] = 128;
  other["bits"] = 4;
  EXPECT_EQ(problem(with("quantization_config", other)),
            "quantization_config.quant_method is \"gptq\", expected \"fp8\"; "
            "quantization_config.weight_block_size is 128, expected two sizes such as [128, 128]; "
            "quantization_config.bits is a key that nothing here reads");
}

TEST(DeepseekV3, QuantisedRowsDequantiseFirst) {
  const Json fp8{{"quant_method", "fp8"}, {"weight_block_size", {4u, 2u}}};
  for (const RuleRow& row : make_model(with("quantization_config", fp8)).value().rules.rows) {
    const bool quantised = !row.steps.empty() && row.steps[0] == Step(BlockDequantize{4, 2, "_scale_inv"});
    const bool projection = row.hf.find("_proj") != std::string::npos;
    EXPECT_EQ(quantised, projection) << row.hf;
  }
}

TEST(DeepseekV3, C1LayersAndExpertsAreNotBothMany) {
  Json bomb = with("num_hidden_layers", 4096);
  EXPECT_EQ(problem(bomb), "");
  bomb["n_routed_experts"] = 16383;
  EXPECT_EQ(problem(bomb), "layers and experts make more than 1000000 tensors");
  Json wide = config();
  wide["hidden_size"] = wide["moe_intermediate_size"] = 1 << 20;
  wide["n_routed_experts"] = 16383;
  wide["num_hidden_layers"] = 20;
  EXPECT_THAT(problem(wide), testing::EndsWith("has more than 2^58 parameters"));
}

}  // namespace
}  // namespace tandem
