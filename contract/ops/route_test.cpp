#include "contract/ops/route.h"

#include <gmock/gmock.h>

#include <cmath>

#include "contract/ops/op_testing.h"

namespace tandem {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;

/// TV3's router by default: 8 experts in 4 groups, 2 kept, top 3, scaled by 2.5.
struct Router {
  int64_t top_k = 3, n_group = 4, topk_group = 2;
  bool norm_topk_prob = true;
  double factor = 2.5;
  std::string scoring_func = "sigmoid", topk_method = "noaux_tc", layout = "in_out";

  Node node() const {
    return node_of("route",
                   {{"layout", layout},
                    {"top_k", top_k},
                    {"n_group", n_group},
                    {"topk_group", topk_group},
                    {"norm_topk_prob", norm_topk_prob},
                    {"routed_scaling_factor", factor},
                    {"scoring_func", scoring_func},
                    {"topk_method", topk_method}},
                   3);
  }
  std::string infer(TensorType kernel = f32({16, 8}), TensorType bias = f32({8})) const {
    const TensorType forced = i32({"batch", "tokens", static_cast<uint64_t>(top_k)});
    return tandem::infer(node(), {f32({"batch", "tokens", 16}), kernel, bias, forced});
  }
  /// One token whose only channel is 1: the kernel is its logits.
  std::vector<Value<double>> run(std::vector<double> logits, std::vector<double> bias,
                                 std::vector<double> forced = {}) const {
    const uint64_t experts = logits.size(), chosen = static_cast<uint64_t>(top_k);
    forced.resize(chosen, -1);
    return run_f64(node(),
                   {{{1, 1, 1}, {1}}, {{1, experts}, logits}, {{experts}, bias}, {{1, 1, chosen}, forced}})
        .value();
  }
};

TEST(Route, C1XHasThreeAxes) {
  EXPECT_EQ(Router{}.infer(), "i32[batch, tokens, 3], f32[batch, tokens, 3], f32[batch, tokens, 8]");
  EXPECT_EQ(infer(Router{}.node(), {f32({16}), f32({16, 8}), f32({8}), i32({3})}),
            "route_c1: x is f32[16], expected a float type and [batch, tokens, hidden]");
}

TEST(Route, C2KernelIsF32AndLiesAsTheLayoutSays) {
  EXPECT_EQ(Router{.layout = "out_in"}.infer(f32({8, 16})),
            "i32[batch, tokens, 3], f32[batch, tokens, 3], f32[batch, tokens, 8]");
  EXPECT_EQ(Router{}.infer(f32({8, 16})),
            "route_c2: kernel is f32[8, 16], expected f32 [hidden, experts] with hidden = 16");
  EXPECT_EQ(Router{}.infer(bf16({16, 8})),
            "route_c2: kernel is bf16[16, 8], expected f32 [hidden, experts] with hidden = 16");
}

TEST(Route, C3BiasIsF32) {
  EXPECT_EQ(Router{}.infer(f32({16, 8}), bf16({8})), "route_c3: bias is bf16[8], expected f32[8]");
}

TEST(Route, C4ForcedHasAPlaceForEachChosen) {
  EXPECT_EQ(infer(Router{}.node(),
                  {f32({"batch", "tokens", 16}), f32({16, 8}), f32({8}), i32({"batch", "tokens", 2})}),
            "route_c4: forced is i32[batch, tokens, 2], expected i32[batch, tokens, 3]");
}

TEST(Route, C5GroupsHoldTwoExpertsOrMore) {
  EXPECT_EQ(Router{.n_group = 3}.infer(), "route_c5: 8 experts do not form 3 groups of at least two");
  EXPECT_EQ(Router{.n_group = 8}.infer(), "route_c5: 8 experts do not form 8 groups of at least two");
}

TEST(Route, C6AtMostAllGroupsAreKept) {
  EXPECT_EQ(Router{.topk_group = 5}.infer(), "route_c6: topk_group is 5, expected 1 to n_group = 4");
}

TEST(Route, C7TheKeptGroupsHoldEnoughExperts) {
  EXPECT_EQ(Router{.top_k = 5}.infer(), "route_c7: top_k is 5, expected 1 to the 4 experts of 2 groups");
}

TEST(Route, C8TheFactorIsPositive) {
  EXPECT_EQ(Router{.factor = 0}.infer(), "route_c8: routed_scaling_factor is 0, expected a number above 0");
}

TEST(Route, C9OtherRoutersAreRefusedByName) {
  EXPECT_EQ(Router{.scoring_func = "softmax"}.infer(),
            "i32[batch, tokens, 3], f32[batch, tokens, 3], f32[batch, tokens, 8]");
  EXPECT_EQ(
      Router{.scoring_func = "tanh"}.infer(),
      "route_c9: scoring_func \"tanh\" with topk_method \"noaux_tc\", known are \"sigmoid\" and \"softmax\" "
      "with \"noaux_tc\"");
}

TEST(Route, C10LayoutIsOneOfTwo) {
  EXPECT_EQ(Router{.layout = ""}.infer(), "route_c10: layout is \"\", expected \"in_out\" or \"out_in\"");
}

TEST(Route, C11AForcedExpertExists) {
  const auto bad = run_f32(
      Router{.top_k = 1}.node(),
      {{{1, 1, 1}, {1}}, {{1, 8}, std::vector<float>(8)}, {{8}, std::vector<float>(8)}, {{1, 1, 1}, {8}}});
  EXPECT_EQ(bad.error().message(), "route_c11: forced expert 8 is not one of 8");
}

// Sigmoid scores .90 .10 .60 .55 .50 .45 .20 .15.
const std::vector<double> kLogits{2.197225, -2.197225, .405465, .200671, 0, -.200671, -1.386294, -1.734601};
const std::vector<double> kBias{0, .7, 0, 0, 0, .2, 0, 0};

TEST(Route, R09TheBiasChoosesButDoesNotWeigh) {
  const auto routed = Router{.top_k = 2}.run(kLogits, kBias);
  EXPECT_THAT(routed[0].data, ElementsAre(0, 1));
  EXPECT_THAT(routed[1].data, Pointwise(DoubleNear(1e-5), {2.25, 0.25}));
}

// Not those that weigh, and not minus infinity in the groups that are dropped; forcing changes nothing of
// them.
TEST(Route, RouterScoresAreThoseThatChoose) {
  const auto expected = Pointwise(DoubleNear(1e-6), {.90, .80, .60, .55, .50, .65, .20, .15});
  for (const std::vector<double>& forced : {std::vector<double>{}, {6, 2}}) {
    const auto scores = Router{.top_k = 2}.run(kLogits, kBias, forced)[2];
    EXPECT_EQ(scores.shape, (Shape{1, 1, 8}));
    EXPECT_THAT(scores.data, expected);
  }
}

TEST(Route, ABiasInTheWeightsIsAskedForByName) {
  Node node = Router{.top_k = 2, .norm_topk_prob = false, .factor = 1}.node();
  node.attributes["bias_in_weights"] = true;
  const auto routed =
      run_f64(node, {{{1, 1, 1}, {1}}, {{1, 8}, kLogits}, {{8}, kBias}, {{1, 1, 2}, {-1, -1}}}).value();
  EXPECT_THAT(routed[1].data, Pointwise(DoubleNear(1e-5), {0.9, 0.8}));
}

// Logits ln 1, ln 2, ln 3, ln 4 and the rest far below.
TEST(Route, SoftmaxScoresSumToOne) {
  const std::vector<double> logits{0, std::log(2.0), std::log(3.0), std::log(4.0), -50, -50, -50, -50};
  const Router router{.top_k = 2,
                      .n_group = 1,
                      .topk_group = 1,
                      .norm_topk_prob = false,
                      .factor = 1,
                      .scoring_func = "softmax"};
  const auto routed = router.run(logits, std::vector<double>(8));
  EXPECT_THAT(routed[0].data, ElementsAre(3, 2));
  EXPECT_THAT(routed[1].data, Pointwise(DoubleNear(1e-12), {0.4, 0.3}));
}

// Groups (.90 .80) (.60 .55) (.50 .65) (.20 .15): the best single scores would keep the same two groups as
// the sums here, so the last group gets one very good expert: 1.2 + 0 loses against .60 + .65.
TEST(Route, GroupsAreRankedByTheirTwoBest) {
  const auto routed =
      Router{.top_k = 3}.run({2.197225, -2.197225, .405465, .405465, 0, -.200671, -1.386294, -20},
                             {0, .7, 0, 0.05, 0, .2, .95, -.1});
  EXPECT_THAT(routed[0].data, ElementsAre(0, 1, 3));
}

TEST(Route, R11TheFactorAppliesOnceWithAndWithoutNormalisation) {
  const Router plain{.top_k = 2, .norm_topk_prob = false, .factor = 16};
  EXPECT_THAT(plain.run(kLogits, kBias)[1].data, Pointwise(DoubleNear(1e-5), {14.4, 1.6}));
  const Router once{.top_k = 2, .norm_topk_prob = false, .factor = 1};
  EXPECT_THAT(once.run(kLogits, kBias)[1].data, Pointwise(DoubleNear(1e-6), {0.9, 0.1}));
  const Router normalised{.top_k = 2, .factor = 1};
  EXPECT_THAT(normalised.run(kLogits, kBias)[1].data, Pointwise(DoubleNear(1e-6), {0.9, 0.1}));
}

// Dropped groups must lose even against negative c: with 0 in their place they would win.
TEST(Route, DroppedGroupsCannotComeBackOverNegativeScores) {
  const std::vector<double> bias{-2, -2, -2, -2, -3, -3, -3, -3};
  EXPECT_THAT(Router{}.run(std::vector<double>(8, 0), bias)[0].data, ElementsAre(0, 1, 2));
}

TEST(Route, EqualScoresGoToTheLowestNumber) {
  const auto routed = Router{}.run(std::vector<double>(8, 0), std::vector<double>(8, 0));
  EXPECT_THAT(routed[0].data, ElementsAre(0, 1, 2));
}

TEST(Route, ForcedExpertsKeepTheirOwnScores) {
  const auto routed = Router{.top_k = 2, .norm_topk_prob = false, .factor = 1}.run(kLogits, kBias, {6, 2});
  EXPECT_THAT(routed[0].data, ElementsAre(6, 2));
  EXPECT_THAT(routed[1].data, Pointwise(DoubleNear(1e-6), {0.2, 0.6}));
}

// All scores are exact in float. Groups (8 7) (5 1) (6 3) (2 2), sums 15 6 9 4.
const std::vector<double> kScores{8, 7, 5, 1, 6, 3, 2, 2};

double margin(const Router& router, const std::vector<double>& scores) {
  const double wide = routing_margin(router.node(), scores);
  const std::vector<float> narrow(scores.begin(), scores.end());
  EXPECT_EQ(routing_margin(router.node(), narrow), static_cast<float>(wide));
  return wide;
}

TEST(RoutingMargin, IsTheSmallerOfTheGapsOfGroupsAndOfExperts) {
  // Groups 0 and 2 stay: 9 - 6. Of 8 7 6 3 the best three: 6 - 3; the best two: 7 - 6.
  EXPECT_EQ(margin(Router{.top_k = 3}, kScores), 3);
  EXPECT_EQ(margin(Router{.top_k = 2}, kScores), 1);
  // Groups 0, 2 and 1 stay: 6 - 4. Of 8 7 6 5 3 1 the best five: 3 - 1, the best three: 6 - 5.
  EXPECT_EQ(margin(Router{.top_k = 5, .topk_group = 3}, kScores), 2);
  EXPECT_EQ(margin(Router{.top_k = 3, .topk_group = 3}, kScores), 1);
}

TEST(RoutingMargin, ExpertsOfDroppedGroupsDoNotCount) {
  // Group 1 is dropped by a wide gap, 15 and 9 against 6.25; its 5.75 is nearer to the 6 that is chosen than
  // 3 is.
  EXPECT_EQ(margin(Router{.top_k = 3}, {8, 7, 5.75, .5, 6, 3, 2, 2}), 2.75);
  // One group stays and all of it is chosen: what is left is the gap of the groups, 15 - 9.
  EXPECT_EQ(margin(Router{.top_k = 2, .topk_group = 1}, kScores), 6);
}

TEST(RoutingMargin, WithOneGroupOrAllGroupsKeptExpertsAloneDecide) {
  EXPECT_EQ(margin(Router{.top_k = 4, .n_group = 1, .topk_group = 1}, kScores), 5 - 3);
  EXPECT_EQ(margin(Router{.top_k = 4, .topk_group = 4}, kScores), 5 - 3);
}

TEST(RoutingMargin, IsInfiniteWhereNothingIsRejected) {
  EXPECT_EQ(margin(Router{.top_k = 8, .n_group = 1, .topk_group = 1}, kScores), HUGE_VAL);
  EXPECT_EQ(margin(Router{.top_k = 8, .topk_group = 4}, kScores), HUGE_VAL);
}

TEST(RoutingMargin, IsZeroForATie) {
  EXPECT_EQ(margin(Router{}, std::vector<double>(8, 1)), 0);
  EXPECT_EQ(margin(Router{.top_k = 3}, {8, 7, 6, 3, 6, 3, 2, 2}), 0);  // between groups 1 and 2
}

TEST(RoutingMargin, NegativeScoresAreScoresToo) {
  // Groups (-1 -2) (-4 -8) (-3 -5) (-9 -9), sums -3 -12 -8 -18: 4 between groups; of -1 -2 -3 -5 the third to
  // the fourth.
  EXPECT_EQ(margin(Router{.top_k = 3}, {-1, -2, -4, -8, -3, -5, -9, -9}), 2);
}

}  // namespace
}  // namespace tandem
