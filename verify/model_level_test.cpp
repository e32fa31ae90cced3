#include "verify/model_level.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <class T>
HostTensor tensor(DType dtype, Shape shape, const std::vector<T>& values) {
  HostTensor made{dtype, std::move(shape), std::vector<std::byte>(values.size() * sizeof(T))};
  std::memcpy(made.data.data(), values.data(), made.data.size());
  return made;
}

/// An engine that answers every call with fixed logits of [1, 2, 3], one mixture layer, top 1.
class FakeEngine : public Engine {
 public:
  std::vector<float> logits{3, 2, 1, 3, 2, 1};
  std::vector<float> forced_logits{3, 2, 1, 3, 2, 1};
  std::vector<float> margins{1, 1};
  std::vector<int32_t> experts{4, 5};
  std::vector<int32_t> forced;  ///< what logits_forced was asked for
  const EngineInfo& info() const override { return info_; }
  Result<HostTensors> run(const std::string& entry, const HostTensors& inputs,
                          const std::vector<std::string>&) override {
    if (entry == "logits_forced") {
      const HostTensor& asked = inputs.at("forced_experts");
      forced.resize(asked.data.size() / sizeof(int32_t));
      std::memcpy(forced.data(), asked.data.data(), asked.data.size());
      return HostTensors{{"logits", tensor(DType::f32, {1, 2, 3}, forced_logits)}};
    }
    return HostTensors{{"logits", tensor(DType::f32, {1, 2, 3}, logits)},
                       {"experts", tensor(DType::i32, {1, 1, 2, 1}, experts)},
                       {"router_margin", tensor(DType::f32, {1, 1, 2}, margins)}};
  }

 private:
  EngineInfo info_;
};

const std::vector<Probe> kProbes{make_probe("p", {{1, 2}}, Padding::right)};
ModelLevelOptions mixture() {
  ModelLevelOptions options;
  options.moe_layers = options.num_experts_per_tok = 1;
  options.reference_has_margins = true;
  return options;
}

TEST(ModelLevel, EqualLogitsPass) {
  FakeEngine left, right;
  const ModelLevel level = compare_models(left, right, kProbes, {}).value();
  EXPECT_TRUE(level.passed());
  EXPECT_EQ(level.total.compared, 6u);
  EXPECT_EQ(to_json(level)["prompts"], 1);
}

// The second token's logits differ; KL of one token by hand.
TEST(ModelLevel, TheWorstTokensAreNamed) {
  FakeEngine left, right;
  right.logits = {3, 2, 1, 2, 3, 1};
  const ModelLevel level = compare_models(left, right, kProbes, {}).value();
  ASSERT_EQ(level.worst_tokens.size(), 2u);
  const TokenResult& worst = level.worst_tokens[0];
  EXPECT_EQ(std::make_tuple(worst.probe, worst.row, worst.token, worst.position),
            std::make_tuple(std::string("p"), 0u, 1u, 1));
  EXPECT_EQ(std::make_pair(worst.reference_id, worst.other_id), std::make_pair(0, 1));
  const double sum = std::exp(3) + std::exp(2) + std::exp(1);
  EXPECT_NEAR(worst.kl, (std::exp(3) - std::exp(2)) / sum, 1e-6);
  EXPECT_EQ(level.longest_probe, "p");
  ASSERT_EQ(level.positions.size(), 2u);
  EXPECT_EQ(level.positions[1].position, 1);
  EXPECT_EQ(level.positions[1].kl, worst.kl);
  EXPECT_EQ(to_json(level)["worst_tokens"][0]["other_id"], 1);
}

TEST(ModelLevel, ATokenThatIsNotFiniteIsTheWorst) {
  FakeEngine left, right;
  right.logits[4] = std::numeric_limits<float>::infinity();
  const Json json = to_json(compare_models(left, right, kProbes, {}).value());
  EXPECT_EQ(json["worst_tokens"][0]["token"], 1);
  EXPECT_TRUE(json["worst_tokens"][0]["kl"].is_null());
  EXPECT_TRUE(json["worst_tokens"][0]["other_id"].is_null());
  EXPECT_TRUE(json["positions"]["kl"][1][1].is_null());
}

TEST(ModelLevel, ThinnedPositionsKeepTheLargest) {
  std::vector<PositionKl> positions;
  for (int32_t i = 0; i < 7; ++i) positions.push_back({i, i == 4 ? 9.0 : 0.0});
  EXPECT_EQ(thinned(positions, 7).size(), 7u);
  const std::vector<PositionKl> kept = thinned(positions, 3);  // runs of 3: 0-2, 3-5, 6
  ASSERT_EQ(kept.size(), 3u);
  EXPECT_EQ(kept[1].position, 4);
  EXPECT_EQ(kept[2].position, 6);
}

TEST(ModelLevel, NoProbesDoNotPass) {
  FakeEngine left, right;
  EXPECT_FALSE(compare_models(left, right, {}, {}).value().passed());
}

TEST(ModelLevel, ADifferenceFailsAndSaysBy) {
  FakeEngine left, right;
  right.logits[4] += 0.01f;
  const ModelLevel level = compare_models(left, right, kProbes, {}).value();
  EXPECT_FALSE(level.passed());
  EXPECT_THAT(level.probes[0].failures[0], HasSubstr("max_abs_error 0.01 is above"));
}

TEST(ModelLevel, NaNOnBothSidesFails) {
  FakeEngine left, right;
  left.logits[1] = right.logits[1] = std::numeric_limits<float>::quiet_NaN();
  const ModelLevel level = compare_models(left, right, kProbes, {}).value();
  EXPECT_FALSE(level.passed());
  EXPECT_THAT(level.probes[0].failures, ElementsAre("3 logits in rows with NaN or infinity"));
}

// PyTorch's convention: the label is the id that follows; what follows a row's last real id is ignored.
TEST(ModelLevel, TheLossIsThatOfTheIdThatFollows) {
  FakeEngine left, right;
  const double norm = std::log(std::exp(3.0) + std::exp(2.0) + std::exp(1.0));
  const ModelLevel level = compare_models(left, right, kProbes, {}).value();  // ids 1, 2; logits 3, 2, 1
  EXPECT_EQ(level.total.labels, 1u);
  EXPECT_DOUBLE_EQ(level.total.loss(), norm - 1);
  EXPECT_EQ(to_json(level)["loss_difference"], 0);
  Probe padded = kProbes[0];
  padded.attention_mask = {1, 0};
  EXPECT_EQ(compare_models(left, right, {padded}, {}).value().total.labels, 0u);
  padded.attention_mask = {0, 1};
  EXPECT_EQ(compare_models(left, right, {padded}, {}).value().total.labels, 0u);
}

TEST(ModelLevel, EveryMeasureIsInTheJson) {
  FakeEngine left, right;
  right.logits[4] += 0.5f;
  const Json json = to_json(compare_models(left, right, kProbes, {}).value());
  EXPECT_DOUBLE_EQ(json["nmse"], 0.25 / 28);
  EXPECT_DOUBLE_EQ(json["probes"][0]["rms_error"], std::sqrt(0.25 / 6));
  EXPECT_DOUBLE_EQ(json["cosine"], 29 / std::sqrt(28.0 * 30.25));
  EXPECT_EQ(json["top5_agreement"], 1);
  EXPECT_EQ(json["top10_agreement"], 1);
  EXPECT_EQ(json["skipped"], Json::array());
}

TEST(ModelLevel, PaddedTokensAreNotCompared) {
  FakeEngine left, right;
  right.logits[0] = 1000;
  Probe probe = make_probe("p", {{1, 2}}, Padding::right);
  probe.attention_mask[0] = 0;
  const ModelLevel level = compare_models(left, right, {probe}, {}).value();
  EXPECT_TRUE(level.passed());
  EXPECT_EQ(level.total.tokens, 1u);
}

TEST(ModelLevel, AFlippedNearTieIsForcedThereOnlyAndListed) {
  FakeEngine left, right;
  left.margins = {1, 5e-6f};
  right.logits[3] = 7;
  const ModelLevel level = compare_models(left, right, kProbes, mixture()).value();
  EXPECT_TRUE(level.passed());
  EXPECT_TRUE(level.probes[0].forced);
  EXPECT_THAT(right.forced, ElementsAre(-1, 5));
  ASSERT_EQ(level.near_ties.size(), 1u);
  EXPECT_EQ(level.near_ties[0].token, 1u);
}

TEST(ModelLevel, AWrongWeightIsNotExcusedByANearTie) {
  FakeEngine left, right;
  left.margins = {1, 5e-6f};
  right.logits[3] = right.forced_logits[3] = 7;
  EXPECT_FALSE(compare_models(left, right, kProbes, mixture()).value().passed());
}

TEST(ModelLevel, MoreNearTiesThanOneInAThousandTokensAreNoExcuse) {
  FakeEngine left, right;
  left.margins = {1e-6f, 1e-6f};
  right.logits[3] = 7;
  EXPECT_FALSE(compare_models(left, right, kProbes, mixture()).value().passed());
  EXPECT_THAT(right.forced, IsEmpty());
}

// bfloat16's routing hangs on rounding: more margins are near, and all of them may be.
TEST(ModelLevel, In16BitsMoreRoutingMarginsAreNear) {
  FakeEngine left, right;
  left.margins = {0.02f, 0.01f};
  right.logits[3] = 7;
  ModelLevelOptions options = mixture();
  options.lowest = DType::bf16;
  EXPECT_TRUE(compare_models(left, right, kProbes, options).value().passed());
  EXPECT_THAT(right.forced, ElementsAre(4, 5));
  left.margins = {1, 0.04f};
  right.forced.clear();
  EXPECT_FALSE(compare_models(left, right, kProbes, options).value().passed());
  EXPECT_THAT(right.forced, IsEmpty());
}

TEST(ModelLevel, AnswersOfAnotherShapeAreAnError) {
  FakeEngine left, right;
  const auto wrong = compare_models(left, right, {make_probe("p", {{1, 2, 3}}, Padding::right)}, {});
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().rule, "verify_c4");
  EXPECT_THAT(wrong.error().text, HasSubstr("logits is f32[1, 2, 3], expected f32[1, 3, 0]"));
}

/// The same answers in float64.
class FakeExact : public Engine {
 public:
  std::vector<double> logits{3, 2, 1, 3, 2, 1};
  const EngineInfo& info() const override { return info_; }
  Result<HostTensors> run(const std::string&, const HostTensors&, const std::vector<std::string>&) override {
    HostTensor answer{DType::f64, {1, 2, 3}, std::vector<std::byte>(logits.size() * sizeof(double))};
    std::memcpy(answer.data.data(), logits.data(), answer.data.size());
    return HostTensors{{"logits", answer}};
  }

 private:
  EngineInfo info_;
};

TEST(ModelLevel, AboveTheFixedBarFloat64Decides) {
  FakeEngine left, right;
  left.logits[5] = 1 + 4e-5f;  // the reference itself is 4e-5 from exact
  right.logits[5] = 1 - 3e-5f;
  ModelLevelOptions options;
  EXPECT_FALSE(compare_models(left, right, kProbes, options).value().passed());
  FakeExact exact;
  options.start_exact = [&exact] { return Result<Engine*>(&exact); };
  const ModelLevel level = compare_models(left, right, kProbes, options).value();
  EXPECT_TRUE(level.passed());
  EXPECT_NEAR(level.probes[0].exact->reference_max, 4e-5, 1e-6);
  left.logits[5] = 1;  // an exact reference excuses nothing
  EXPECT_FALSE(compare_models(left, right, kProbes, options).value().passed());
}

}  // namespace
}  // namespace tandem
