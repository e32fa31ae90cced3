#include "arch/llama/llama.h"

#include <gmock/gmock.h>

#include "contract/check.h"

namespace tandem {
namespace {

Json config() {
  return {{"model_type", "llama"},    {"vocab_size", 11},        {"hidden_size", 8},
          {"num_hidden_layers", 2},   {"intermediate_size", 12}, {"num_attention_heads", 4},
          {"num_key_value_heads", 2}, {"rms_norm_eps", 1e-6},    {"max_position_embeddings", 64}};
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

std::vector<std::string> names(const Json& json) {
  std::vector<std::string> found;
  const Model model = make_model(json).value();
  for (const TensorPlan& plan : expand(model.rules))
    for (const std::string& hf : plan.hf) found.push_back(hf);
  return found;
}

size_t operands(const Contract& contract, const std::string& tap) {
  for (const Node& node : contract.blocks[0].nodes)
    if (node.tap == tap) return node.inputs.size();
  return 0;
}

TEST(Llama, EveryTensorOfASmallModel) {
  Json one = with("num_hidden_layers", 1);
  EXPECT_THAT(names(one),
              testing::UnorderedElementsAre(
                  "model.embed_tokens.weight", "model.norm.weight", "lm_head.weight",
                  "model.layers.0.input_layernorm.weight", "model.layers.0.post_attention_layernorm.weight",
                  "model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.k_proj.weight",
                  "model.layers.0.self_attn.v_proj.weight", "model.layers.0.self_attn.o_proj.weight",
                  "model.layers.0.mlp.gate_proj.weight", "model.layers.0.mlp.up_proj.weight",
                  "model.layers.0.mlp.down_proj.weight"));
  one["mlp_bias"] = true;
  EXPECT_EQ(names(one).size(), 12u + 3);
}

TEST(Llama, CountsItsParameters) {
  const uint64_t layer = 2 * 8 + 2 * 8 * 8 + 2 * 8 * 4 + 3 * 8 * 12;
  EXPECT_EQ(make_model(config()).value().parameters, 2 * 11 * 8 + 8 + 2 * layer);
  EXPECT_EQ(make_model(config()).value().active_parameters, 2 * 11 * 8 + 8 + 2 * layer);
}

TEST(Llama, N20TiedEmbeddingsAreOneWeightCountedOnce) {
  const Json tied = with("tie_word_embeddings", true);
  EXPECT_THAT(names(tied), testing::Not(testing::Contains("lm_head.weight")));
  EXPECT_EQ(make_model(config()).value().parameters - make_model(tied).value().parameters, 11u * 8);
  const Contract contract = contract_of(tied);
  EXPECT_EQ(find_weight(contract, "lm_head.weight"), nullptr);
  const Node& head = find_entry(contract, "logits")->nodes.back();
  EXPECT_EQ(head.inputs[1], (Operand{"model.embed_tokens.weight", true}));
  EXPECT_EQ(string_attribute(head, "layout"), "out_in");
}

TEST(Llama, N22AnUntiedHeadMustBeThere) {
  const Model model = make_model(config()).value();
  for (const RuleRow& row : model.rules.rows) EXPECT_FALSE(row.hf == "lm_head.weight" && row.optional);
  EXPECT_THAT(names(config()), testing::Contains("lm_head.weight"));
}

TEST(Llama, N23BiasesAreUsedWhereTheConfigHasThem) {
  const Contract plain = contract_of(config()), biased = contract_of(with("attention_bias", true));
  for (const char* tap : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"}) {
    EXPECT_EQ(operands(plain, tap), 2u) << tap;
    EXPECT_EQ(operands(biased, tap), 3u) << tap;
  }
  EXPECT_EQ(operands(biased, "mlp.up_proj"), 2u);
}

TEST(Llama, N10NoRotaryBufferIsAWeight) {
  for (const std::string& name : names(config())) EXPECT_EQ(name.find("rotary"), std::string::npos) << name;
}

TEST(Llama, AHeadMayBeWiderThanItsShare) {
  const Contract contract = contract_of(with("head_dim", 6));
  EXPECT_EQ(find_weight(contract, "model.layers.0.self_attn.q_proj.weight")->shape, (Shape{8, 24}));
  EXPECT_EQ(find_weight(contract, "model.layers.0.self_attn.k_proj.weight")->shape, (Shape{8, 12}));
  EXPECT_EQ(find_weight(contract, "model.layers.0.self_attn.o_proj.weight")->shape, (Shape{24, 8}));
}

TEST(Llama, AKernelMayStayAsHuggingFaceHasIt) {
  Model model = make_model(config()).value();
  for (RuleRow& row : model.rules.rows)
    if (row.hf == "model.layers.{layer}.mlp.up_proj.weight") row.steps.clear();
  const Contract contract =
      model.contract(model.rules, DType::bf16, [](const std::string&) { return DType::bf16; }).value();
  ASSERT_TRUE(check(contract).ok());
  for (const Node& node : contract.blocks[0].nodes) {
    if (node.op != "linear") continue;
    EXPECT_EQ(string_attribute(node, "layout"), node.tap == "mlp.up_proj" ? "out_in" : "in_out");
  }
}

TEST(Llama, StepsOfAnEditedMapAddUp) {
  const auto layout_with = [](std::vector<Step> steps) {
    Model model = make_model(config()).value();
    for (RuleRow& row : model.rules.rows)
      if (row.hf == "model.layers.{layer}.self_attn.q_proj.weight") row.steps = steps;
    const Contract contract =
        model.contract(model.rules, DType::f32, [](const std::string&) { return DType::f32; }).value();
    for (const Node& node : contract.blocks[0].nodes)
      if (node.tap == "self_attn.q_proj") return string_attribute(node, "layout");
    return std::string("no such node");
  };
  const Step swap = Transpose{{1, 0}}, keep = Transpose{{0, 1}};
  EXPECT_EQ(layout_with({swap}), "in_out");
  EXPECT_EQ(layout_with({keep}), "out_in");
  EXPECT_EQ(layout_with({swap, swap}), "out_in");
  EXPECT_EQ(layout_with({swap, keep, swap, swap}), "in_out");
}

TEST(Llama, C1Sizes) {
  const std::string width = ", expected a whole number from 1 to 1048576";
  EXPECT_THAT(problem(with("hidden_size", 0)), testing::HasSubstr("hidden_size is 0" + width));
  EXPECT_THAT(problem(with("hidden_size", -1)), testing::HasSubstr("hidden_size is -1" + width));
  EXPECT_THAT(problem(with("hidden_size", 1ull << 40)),
              testing::HasSubstr("hidden_size is 1099511627776" + width));
  EXPECT_THAT(problem(with("hidden_size", "4096")), testing::HasSubstr("hidden_size is \"4096\"" + width));
  EXPECT_EQ(problem(with("rms_norm_eps", 0)), "rms_norm_eps is 0, expected a number above 0");
  EXPECT_EQ(problem(with("torch_dtype", "int3")),
            "torch_dtype is \"int3\", expected float32, bfloat16 or float16");
}

TEST(Llama, C1HeadsDivide) {
  EXPECT_EQ(problem(with("num_attention_heads", 3)),
            "num_key_value_heads is 2, expected a divisor of num_attention_heads = 3; "
            "num_attention_heads is 3, expected a divisor of hidden_size = 8");
  EXPECT_EQ(problem(with("num_key_value_heads", 3)),
            "num_key_value_heads is 3, expected a divisor of num_attention_heads = 4");
  EXPECT_EQ(problem(with("head_dim", 5)), "head_dim is 5, expected an even number");
  EXPECT_EQ(problem(with("num_attention_heads", 8)), "head_dim is 1, expected an even number");
}

TEST(Llama, C1WhatThisArchitectureDoesNotDo) {
  EXPECT_EQ(problem(with("hidden_act", "quick_gelu")),
            "hidden_act is \"quick_gelu\", expected one of \"silu\", \"swish\", \"gelu\", \"gelu_python\", "
            "\"gelu_pytorch_tanh\", \"gelu_python_tanh\", \"gelu_new\", \"gelu_accurate\", \"relu\"");
  EXPECT_EQ(problem(with("rope_interleaved", true)),
            "rope_interleaved is true, expected false: llama rotates halves");
  EXPECT_EQ(problem(with("sliding_window", 4096)), "sliding_window is a key that nothing here reads");
}

TEST(Llama, C1AllProblemsComeInOneReport) {
  Json bad = with("hidden_size", "4096");
  bad.erase("vocab_size");
  bad["partial_rotary_factor"] = 0.5;
  bad["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 4.0}, {"beta_fast", 32}};
  EXPECT_EQ(problem(bad),
            "vocab_size is missing, expected a whole number from 1 to 16777216; "
            "hidden_size is \"4096\", expected a whole number from 1 to 1048576; "
            "num_attention_heads is 4, expected a divisor of hidden_size = 1; "
            "head_dim is 0, expected an even number; "
            "partial_rotary_factor is a key that nothing here reads; "
            "rope_scaling.beta_fast is a key that nothing here reads");
}

TEST(Llama, AnAcceptedKeyChangesNothing) {
  const Json json = with("sliding_window", 4096);
  ASSERT_FALSE(make_model(json).ok());
  const auto model = make_model(json, {{"sliding_window"}});
  ASSERT_TRUE(model.ok()) << model.error().message();
  EXPECT_EQ(model.value().rules, make_model(config()).value().rules);
}

}  // namespace
}  // namespace tandem
