// Each row of the lowering against the contract's own evaluator, both in float64.

#include "lower/torch/lower_torch.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>

#include <cmath>

#include "contract/ops/activation.h"
#include "contract/ops/registry.h"
#include "contract/text.h"
#include "lower/torch/activation.h"
#include "lower/torch/torch_ops.h"

namespace tandem {
namespace {

/// An input of a case: floats between -1 and 1, or whole numbers below `below` (from `from` on).
struct InputCase {
  Shape shape;
  int below = 0;  ///< 0: floats
  int from = 0;
};

struct OpCase {
  std::string op;
  std::vector<InputCase> inputs;
  Attributes attributes;
};

constexpr int64_t k1 = 1, k2 = 2, k3 = 3, k4 = 4;

Attributes routing(const std::string& layout, bool norm) {
  return {{"layout", layout},
          {"top_k", k3},
          {"n_group", k4},
          {"topk_group", k2},
          {"norm_topk_prob", norm},
          {"routed_scaling_factor", 2.5},
          {"scoring_func", std::string("sigmoid")},
          {"topk_method", std::string("noaux_tc")}};
}

/// Softmax scores, and weights that hold the bias.
Attributes other_routing() {
  Attributes attributes = routing("in_out", true);
  attributes["scoring_func"] = std::string("softmax");
  attributes["bias_in_weights"] = true;
  return attributes;
}

std::vector<OpCase> cases() {
  const std::string in_out = "in_out", out_in = "out_in", f32 = "f32";
  const InputCase experts_in_out{{2, 4, 3}}, experts_out_in{{2, 3, 4}};
  return {
      {"positions", {{{2, 5}, 2}}, {}},
      {"fill_like", {{{2, 3, 4}}}, {{"value", int64_t{-1}}, {"last", std::vector<int64_t>{2, 3}}}},
      {"select", {{{2, 3, 4}}}, {{"axis", k1}, {"index", k2}}},
      {"embedding", {{{2, 3}, 7}, {{7, 4}}}, {}},
      {"linear", {{{2, 3, 4}}, {{4, 5}}}, {{"layout", in_out}}},
      {"linear", {{{2, 3, 4}}, {{5, 4}}, {{5}}}, {{"layout", out_in}}},
      {"rms_norm", {{{2, 3, 4}}, {{4}}}, {{"epsilon", 1e-3}}},
      {"add", {{{2, 3}}, {{2, 3}}}, {}},
      {"activation_gate", {{{2, 3}}, {{2, 3}}}, {{"hidden_act", std::string("silu")}}},
      {"activation_gate", {{{2, 3}}, {{2, 3}}}, {{"hidden_act", std::string("gelu")}}},
      {"activation_gate", {{{2, 3}}, {{2, 3}}}, {{"hidden_act", std::string("gelu_pytorch_tanh")}}},
      {"activation_gate", {{{2, 3}}, {{2, 3}}}, {{"hidden_act", std::string("relu")}}},
      {"split_heads", {{{2, 3, 8}}}, {{"heads", k2}}},
      {"split_heads", {{{2, 0, 8}}}, {{"heads", k2}}},
      {"merge_heads", {{{2, 2, 3, 4}}}, {}},
      {"repeat_heads", {{{2, 1, 3, 4}}}, {{"heads", k3}}},
      {"gather_heads", {{{2, 2, 3, 4}}}, {{"order", std::vector<int64_t>{1, 0, 1}}}},
      {"roll", {{{2, 3, 4}}}, {{"axis", k1}, {"shift", k2}}},
      {"slice", {{{2, 3, 8}}}, {{"begin", k2}, {"size", k3}}},
      {"concat", {{{2, 3, 4}}, {{2, 3, 2}}}, {}},
      {"append", {{{2, 2, 3, 4}}, {{2, 2, 1, 4}}}, {{"axis", k2}, {"length", std::string("keys")}}},
      {"last_tokens", {{{2, 3, 4}}}, {{"count", k2}}},
      {"head_linear",
       {{{2, 2, 3, 5}}, {{5, 8}}},
       {{"layout", in_out}, {"begin", k1}, {"size", k3}, {"transpose", false}}},
      {"head_linear",
       {{{2, 2, 3, 3}}, {{5, 8}}},
       {{"layout", in_out}, {"begin", k1}, {"size", k3}, {"transpose", true}}},
      {"head_linear",
       {{{2, 2, 3, 5}}, {{8, 5}}},
       {{"layout", out_in}, {"begin", k1}, {"size", k3}, {"transpose", false}}},
      {"head_linear",
       {{{2, 2, 3, 3}}, {{8, 5}}},
       {{"layout", out_in}, {"begin", k1}, {"size", k3}, {"transpose", true}}},
      {"rotary_table",
       {{{2, 3}, 900}},
       {{"dim", k4}, {"theta", 1e4}, {"type", std::string("default")}, {"dtype", f32}}},
      {"rotary_table",
       {{{2, 3}, 900}},
       {{"dim", k4},
        {"theta", 1e4},
        {"type", std::string("dynamic")},
        {"dtype", f32},
        {"factor", 2.0},
        {"original_max_position_embeddings", int64_t{64}}}},
      {"rotary", {{{2, 2, 3, 4}}, {{2, 3, 4}}, {{2, 3, 4}}}, {{"interleaved", false}}},
      {"rotary", {{{2, 2, 3, 4}}, {{2, 3, 4}}, {{2, 3, 4}}}, {{"interleaved", true}}},
      {"attention", {{{2, 4, 5, 3}}, {{2, 2, 5, 3}}, {{2, 2, 5, 6}}, {{2, 5}, 2}}, {{"scale", 1.7}}},
      {"attention",
       {{{2, 4, 5, 3}}, {{2, 2, 5, 3}}, {{2, 2, 5, 6}}, {{2, 5}, 2}},
       {{"scale", 1.7}, {"causal", false}}},
      {"attention",
       {{{2, 4, 5, 3}}, {{2, 2, 5, 3}}, {{2, 2, 5, 6}}, {{2, 5}, 2}},
       {{"scale", 1.7}, {"diagonal", k1}}},
      {"attention",
       {{{2, 4, 5, 3}}, {{2, 2, 5, 3}}, {{2, 2, 5, 6}}, {{2, 5}, 2}},
       {{"scale", 1.7}, {"diagonal", -k1}, {"softmax_dtype", std::string("bf16")}}},
      {"attention", {{{2, 4, 1, 3}}, {{2, 2, 5, 3}}, {{2, 2, 5, 6}}, {{2, 5}, 2}}, {{"scale", 1.7}}},
      {"attention", {{{2, 4, 3, 3}}, {{2, 1, 5, 3}}, {{2, 1, 5, 6}}, {{2, 5}, 2}}, {{"scale", 1.7}}},
      {"cached_attention",
       {{{2, 4, 1, 3}}, {{2, 2, 5, 3}}, {{2, 2, 5, 6}}, {{2, 2, 1, 3}}, {{2, 2, 1, 6}}, {{2, 5}, 2}},
       {{"scale", 1.7}}},
      {"route", {{{2, 5, 4}}, {{4, 8}}, {{8}}, {{2, 5, 3}, 0, -1}}, routing(in_out, true)},
      {"route", {{{2, 5, 4}}, {{4, 8}}, {{8}}, {{2, 5, 3}, 0, -1}}, other_routing()},
      {"route", {{{2, 5, 4}}, {{8, 4}}, {{8}}, {{2, 5, 3}, 8}}, routing(out_in, false)},
      {"experts",
       {{{2, 5, 4}},
        {{2, 5, 2}, 4},
        {{2, 5, 2}},
        experts_in_out,
        experts_in_out,
        experts_in_out,
        experts_in_out,
        experts_out_in,
        experts_out_in},
       {{"layout", in_out}, {"chunks", k2}, {"hidden_act", std::string("silu")}}},
      {"experts",
       {{{2, 5, 4}}, {{2, 5, 2}, 2}, {{2, 5, 2}}, experts_out_in, experts_out_in, experts_in_out},
       {{"layout", out_in}, {"chunks", k1}, {"hidden_act", std::string("gelu")}}},
      {"cast", {{{2, 3}}}, {{"dtype", f32}}},
      {"cast", {{{2, 3}}}, {{"dtype", std::string("bf16")}, {"always", true}}},
  };
}

Value<double> value_of(const InputCase& input, uint64_t seed) {
  Value<double> value{input.shape, {}};
  for (uint64_t i = 0, count = element_count(input.shape).value(); i < count; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const auto bits = static_cast<double>(seed >> 33);
    if (input.from < 0)
      value.data.push_back(input.from);
    else if (input.below > 0)
      value.data.push_back(std::fmod(bits, input.below));
    else
      value.data.push_back(bits / 0x1p30 - 1);
  }
  return value;
}

at::Tensor tensor_of(Value<double>& value, bool whole) {
  const std::vector<int64_t> sizes(value.shape.begin(), value.shape.end());
  const at::Tensor doubles = at::from_blob(value.data.data(), sizes, at::TensorOptions(at::kDouble)).clone();
  return whole ? doubles.to(at::kInt) : doubles;
}

TEST(LowerTorch, EveryOpComputesWhatTheEvaluatorComputes) {
  for (const OpCase& c : cases()) {
    Node node{c.op, {}, c.attributes, {"y"}, ""};
    std::vector<Value<double>> values;
    std::vector<at::Tensor> tensors;
    for (const InputCase& input : c.inputs) {
      values.push_back(value_of(input, values.size() + 1));
      tensors.push_back(tensor_of(values.back(), input.below > 0 || input.from < 0));
    }
    const auto expected = find_op(c.op)->evaluate_f64(node, values);
    ASSERT_TRUE(expected.ok()) << c.op << ": " << expected.error().message();
    const auto rows = torch_op_rows();
    const auto row =
        std::find_if(rows.begin(), rows.end(), [&](const TorchOpRow& r) { return r.name == c.op; });
    ASSERT_NE(row, rows.end()) << c.op;
    const auto got = row->run({node, tensors, /*float64=*/true});
    ASSERT_TRUE(got.ok()) << c.op << ": " << got.error().message();
    ASSERT_EQ(got.value().size(), expected.value().size()) << c.op;
    for (size_t output = 0; output < got.value().size(); ++output) {
      const at::Tensor plain = got.value()[output].to(at::kDouble).contiguous();
      EXPECT_EQ(Shape(plain.sizes().begin(), plain.sizes().end()), expected.value()[output].shape) << c.op;
      ASSERT_EQ(static_cast<size_t>(plain.numel()), expected.value()[output].data.size()) << c.op;
      for (size_t i = 0; i < expected.value()[output].data.size(); ++i)
        EXPECT_NEAR(plain.const_data_ptr<double>()[i], expected.value()[output].data[i], 1e-12)
            << c.op << " output " << output << " at " << i;
    }
  }
}

TEST(LowerTorch, EveryOpOfTheContractHasARowAndACase) {
  std::vector<std::string_view> known;
  for (const OpRow& op : ops()) known.push_back(op.name);
  EXPECT_THAT(torch_ops(), ::testing::UnorderedElementsAreArray(known));
  for (const std::string_view op : known) {
    const auto all = cases();
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const OpCase& c) { return c.op == op; })) << op;
  }
}

TEST(LowerTorch, EveryActivationHasARowAndACase) {
  std::vector<std::string_view> known;
  for (const Activation& activation : activations()) known.push_back(activation.name);
  EXPECT_THAT(torch_activations(), ::testing::UnorderedElementsAreArray(known));
  for (const std::string_view name : known) {
    const auto all = cases();
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const OpCase& c) {
      return c.op == "activation_gate" && std::get<std::string>(c.attributes.at("hidden_act")) == name;
    })) << name;
  }
  EXPECT_EQ(activate("mish", at::Tensor()).error().message(),
            "lower_torch_c2: activation 'mish' has no PyTorch lowering");
}

TEST(LowerTorch, TapsHaveTheirFullNamesAndErrorsTheirPlace) {
  const Contract contract = parse_contract(
                                "contract 1\n"
                                "compute f32\n"
                                "weight model.norm.weight: f32[3]\n"
                                "block final(x: f32[batch, tokens, 3]) weights (norm.weight: f32[3]) {\n"
                                "  y = rms_norm(x, @norm.weight, epsilon=1e-06)  # tap norm\n"
                                "  return y\n"
                                "}\n"
                                "entry logits(x: f32[batch, tokens, 3]) {\n"
                                "  y = call(x, block=\"final\", at=\"model\")\n"
                                "  return y\n"
                                "}\n")
                                .value();
  const Block& entry = *find_entry(contract, "logits");
  Value<double> ones{{1, 1, 3}, {1, 1, 1}};
  const at::Tensor x = tensor_of(ones, false).to(at::kFloat);
  std::string asked;
  const TorchWeights weights = [&](const std::string& name, at::ScalarType type,
                                   const TorchRows&) -> Result<at::Tensor> {
    asked = name;
    return x.select(0, 0).select(0, 0).to(type);
  };
  const auto result = run_torch(contract, entry, {{"x", x}}, weights, {.float64 = false, .with_taps = true});
  ASSERT_TRUE(result.ok()) << result.error().message();
  EXPECT_EQ(asked, "model.norm.weight");
  EXPECT_TRUE(result.value().contains("model.norm"));
  EXPECT_TRUE(result.value().contains("y"));

  EXPECT_EQ(run_torch(contract, entry, {}, weights).error().text, "input 'x' is missing");
  EXPECT_EQ(run_torch(contract, entry, {{"x", x.to(at::kInt)}}, weights).error().text,
            "input 'x' is Int of rank 3, expected f32[batch, tokens, 3]");
  const TorchWeights wrong = [&](const std::string&, at::ScalarType, const TorchRows&) -> Result<at::Tensor> {
    return x.narrow(2, 0, 2);
  };
  const auto thrown = run_torch(contract, entry, {{"x", x}}, wrong);
  ASSERT_FALSE(thrown.ok());
  EXPECT_EQ(thrown.error().rule, "lower_torch_c3");
}

TEST(LowerTorch, WeightsAreAskedForByTheRowsThatAreRead) {
  const Contract contract = parse_contract(
                                "contract 1\n"
                                "compute f32\n"
                                "weight table: f32[7, 4]\n"
                                "weight gate.0: f32[2, 4, 3]\n"
                                "weight gate.1: f32[2, 4, 3]\n"
                                "weight up.0: f32[2, 4, 3]\n"
                                "weight up.1: f32[2, 4, 3]\n"
                                "weight down.0: f32[2, 3, 4]\n"
                                "weight down.1: f32[2, 3, 4]\n"
                                "entry logits(ids: i32[batch, tokens], chosen: i32[batch, tokens, 2], "
                                "share: f32[batch, tokens, 2]) {\n"
                                "  x = embedding(ids, @table)\n"
                                "  y = experts(x, chosen, share, @gate.0, @gate.1, @up.0, @up.1, "
                                "@down.0, @down.1, chunks=2, hidden_act=\"silu\", layout=\"in_out\")\n"
                                "  return y\n"
                                "}\n")
                                .value();
  std::map<std::string, std::vector<int64_t>> asked;
  const TorchWeights weights = [&](const std::string& name, at::ScalarType type,
                                   const TorchRows& rows) -> Result<at::Tensor> {
    asked[name] = rows.value_or(std::vector<int64_t>{-100});
    std::vector<int64_t> sizes;
    for (const uint64_t size : find_weight(contract, name)->shape)
      sizes.push_back(static_cast<int64_t>(size));
    return at::ones(sizes, type);
  };
  const TorchTensors inputs{{"ids", at::tensor({5, 2, 5}, at::kInt).reshape({1, 3})},
                            {"chosen", at::tensor({3, 0, 3, 0, 0, 3}, at::kInt).reshape({1, 3, 2})},
                            {"share", at::ones({1, 3, 2}, at::kFloat)}};
  const auto result = run_torch(contract, *find_entry(contract, "logits"), inputs, weights);
  ASSERT_TRUE(result.ok()) << result.error().message();
  EXPECT_THAT(asked.at("table"), ::testing::ElementsAre(2, 5));
  for (const char* kind : {"gate", "up", "down"}) {
    EXPECT_THAT(asked.at(std::string(kind) + ".0"), ::testing::ElementsAre(0, 3)) << kind;
    EXPECT_THAT(asked.at(std::string(kind) + ".1"), ::testing::ElementsAre(-2, 1)) << kind;
  }
}

}  // namespace
}  // namespace tandem
