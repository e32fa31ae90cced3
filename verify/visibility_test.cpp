#include "verify/visibility.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

const EngineInfo kForeign{{"levels", "layer,model"},
                          {"positions", "counted"},
                          {"taps", "model.norm,model.layers.*,model.layers.*.mlp"}};

TEST(Visibility, WithoutWordsEverythingIsShown) {
  const Visibility all = visibility_of({{"engine", "x"}});
  EXPECT_TRUE(shows_level(all, "generation"));
  EXPECT_TRUE(shows_tap(all, "model.rotary_emb"));
  EXPECT_TRUE(can_run(all, make_probe("p", {{1}, {1, 2}}, Padding::left)));
}

TEST(Visibility, LevelsAreThoseOfTheList) {
  const Visibility foreign = visibility_of(kForeign);
  EXPECT_TRUE(shows_level(foreign, "layer"));
  EXPECT_TRUE(shows_level(foreign, "model"));
  EXPECT_FALSE(shows_level(foreign, "module"));
  EXPECT_FALSE(shows_level(foreign, "weights"));
}

TEST(Visibility, AStarStandsForTheNumberOfALayer) {
  const Visibility foreign = visibility_of(kForeign);
  EXPECT_TRUE(shows_tap(foreign, "model.norm"));
  EXPECT_TRUE(shows_tap(foreign, "model.layers.0"));
  EXPECT_TRUE(shows_tap(foreign, "model.layers.61.mlp"));
  EXPECT_FALSE(shows_tap(foreign, "model.layers.0.self_attn"));
  EXPECT_FALSE(shows_tap(foreign, "model.layers.x.mlp"));
  EXPECT_FALSE(shows_tap(foreign, "model.rotary_emb"));
  EXPECT_EQ(tap_pattern("model.layers.12.mlp.experts.7"), "model.layers.*.mlp.experts.*");
}

TEST(Visibility, CountedPositionsHaveNeitherPaddingOnTheLeftNorGaps) {
  const Visibility foreign = visibility_of(kForeign);
  EXPECT_TRUE(can_run(foreign, make_probe("p", {{5, 6, 7}}, Padding::right)));
  EXPECT_TRUE(can_run(foreign, make_probe("p", {{5, 6, 7}, {8}}, Padding::right)));
  EXPECT_FALSE(can_run(foreign, make_probe("p", {{5, 6, 7}, {8}}, Padding::left)));
  Probe gapped = make_probe("p", {{5, 6, 7}}, Padding::right);
  gapped.position_ids = {0, 1, 9};
  EXPECT_FALSE(can_run(foreign, gapped));
  Probe hole = make_probe("p", {{5, 6, 7}}, Padding::right);
  hole.attention_mask = {1, 0, 1};  // its positions would count on
  EXPECT_FALSE(can_run(foreign, hole));
}

}  // namespace
}  // namespace tandem
