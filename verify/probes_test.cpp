#include "verify/probes.h"

#include <gmock/gmock.h>

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Model model_with(uint64_t vocab_size, std::vector<uint64_t> boundaries, uint64_t max_position_embeddings) {
  Model model;
  model.vocab_size = vocab_size;
  model.scaling_boundaries = std::move(boundaries);
  model.max_position_embeddings = max_position_embeddings;
  return model;
}

TEST(Probes, LeftPaddingCountsPositionsFromTheFirstRealToken) {
  const Probe probe = make_probe("p", {{5, 6}, {7, 8, 9, 10}}, Padding::left);
  EXPECT_THAT(probe.input_ids, ElementsAre(0, 0, 5, 6, 7, 8, 9, 10));
  EXPECT_THAT(probe.attention_mask, ElementsAre(0, 0, 1, 1, 1, 1, 1, 1));
  EXPECT_THAT(probe.position_ids, ElementsAre(0, 0, 0, 1, 0, 1, 2, 3));
}

TEST(Probes, RightPaddingRepeatsTheLastPosition) {
  const Probe probe = make_probe("p", {{5}, {7, 8, 9}}, Padding::right);
  EXPECT_THAT(probe.attention_mask, ElementsAre(1, 0, 0, 1, 1, 1));
  EXPECT_THAT(probe.position_ids, ElementsAre(0, 0, 0, 0, 1, 2));
}

TEST(Probes, InputsAreInt32WithABatchAxis) {
  const HostTensors inputs = make_probe("p", {{5, 6}}, Padding::right).inputs();
  ASSERT_EQ(inputs.size(), 3u);
  for (const auto& [name, tensor] : inputs) {
    EXPECT_EQ(tensor.dtype, DType::i32);
    EXPECT_EQ(tensor.shape, (Shape{1, 2}));
    EXPECT_EQ(tensor.data.size(), 8u);
  }
}

TEST(Probes, TheDefaultsHold700TokensAndCrossEveryScalingBoundary) {
  const auto probes = default_probes(model_with(100, {256}, 960));
  ASSERT_EQ(probes.size(), 5u);
  EXPECT_EQ(probes[3].tokens, 700u);
  EXPECT_THAT(probes[4].position_ids, ElementsAre(0, 1, 2, 255, 256, 257, 512, 959));
  for (const Probe& probe : probes)
    for (const int32_t id : probe.input_ids) EXPECT_TRUE(id >= 0 && id < 100);
}

TEST(Probes, TheDefaultsAreTheSameEveryTime) {
  const Model model = model_with(1000, {}, 64);
  EXPECT_EQ(default_probes(model)[0].input_ids, default_probes(model)[0].input_ids);
  EXPECT_NE(default_probes(model)[0].input_ids, default_probes(model_with(999, {}, 64))[0].input_ids);
}

TEST(Probes, RandomPromptsHave3To40Ids) {
  const auto prompts = random_prompts(50, 100);
  ASSERT_EQ(prompts.size(), 100u);
  EXPECT_EQ(prompts[0].size(), 3u);
  EXPECT_EQ(prompts[37].size(), 40u);
  EXPECT_EQ(prompts[38].size(), 3u);
  EXPECT_NE(prompts[0], prompts[38]);
  EXPECT_EQ(prompts, random_prompts(50, 100));
  for (const auto& prompt : prompts)
    for (const int32_t id : prompt) EXPECT_TRUE(id >= 0 && id < 50);
}

TEST(Probes, ATokensFileGivesAProbeALineAndABatchOfTheShortOnes) {
  const auto probes = probes_from_text("1,2,3\n\n 4 5\r\n", 10);
  ASSERT_TRUE(probes.ok());
  ASSERT_EQ(probes.value().size(), 3u);
  EXPECT_EQ(probes.value()[1].name, "line 3");
  EXPECT_THAT(probes.value()[2].input_ids, ElementsAre(1, 2, 3, 0, 4, 5));
}

TEST(Probes, BadIdsAreNamed) {
  EXPECT_THAT(parse_ids("1,x", 10).error().text, HasSubstr("\"1,x\" is no list of token ids"));
  EXPECT_THAT(parse_ids("-1", 10).error().text, HasSubstr("is no list of token ids"));
  EXPECT_THAT(parse_ids("3,10", 10).error().text, HasSubstr("token id 10 is not below vocab_size 10"));
  EXPECT_THAT(parse_ids("99999999999", 10).error().text, HasSubstr("is no list of token ids"));
  EXPECT_THAT(parse_ids(" , ", 10).error().text, HasSubstr("no token ids"));
  EXPECT_THAT(probes_from_text("1\n11\n", 10).error().where, HasSubstr("line 2"));
  EXPECT_FALSE(probes_from_text("\n", 10).ok());
}

TEST(Probes, LayersAreRunOnTheShortOnesAndModulesOnTheLongestToo) {
  const auto of = [](uint64_t tokens) {
    return make_probe(std::to_string(tokens), {std::vector<int32_t>(tokens)}, Padding::right);
  };
  const InnerProbes some = inner_probes({of(7), of(700), of(256), of(300)});
  ASSERT_EQ(some.layer.size(), 2u);
  EXPECT_EQ(some.layer[1].name, "256");
  ASSERT_EQ(some.module.size(), 3u);
  EXPECT_EQ(some.module[2].name, "700");
  const InnerProbes only_long = inner_probes({of(300), of(700)});
  ASSERT_EQ(only_long.layer.size(), 1u);
  EXPECT_EQ(only_long.layer[0].name, "700");
  EXPECT_EQ(only_long.module.size(), 1u);
  EXPECT_TRUE(inner_probes({}).module.empty());
}

}  // namespace
}  // namespace tandem
