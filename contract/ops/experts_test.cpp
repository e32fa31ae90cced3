#include "contract/ops/experts.h"

#include <gmock/gmock.h>

#include <cmath>

#include "contract/ops/op_testing.h"

namespace tandem {
namespace {

Node experts(int64_t chunks, std::string layout = "in_out", std::string hidden_act = "silu") {
  return node_of("experts", {{"layout", layout}, {"chunks", chunks}, {"hidden_act", hidden_act}});
}

const TensorType kX = f32({"batch", "tokens", 4}), kChosen = i32({"batch", "tokens", 2});
const TensorType kWeights = f32({"batch", "tokens", 2}), kUp = f32({3, 4, 5}), kDown = f32({3, 5, 4});

TEST(Experts, C1XHasThreeAxes) {
  EXPECT_EQ(infer(experts(1), {kX, kChosen, kWeights, kUp, kUp, kDown}), "f32[batch, tokens, 4]");
  EXPECT_EQ(infer(experts(1), {f32({4}), kChosen, kWeights, kUp, kUp, kDown}),
            "experts_c1: x is f32[4], expected a float type and [batch, tokens, hidden]");
}

TEST(Experts, C2ChosenHasTheAxesOfX) {
  EXPECT_EQ(
      infer(experts(1), {kX, kWeights, kWeights, kUp, kUp, kDown}),
      "experts_c2: chosen is f32[batch, tokens, 2], expected i32[batch, tokens, top_k] with the axes of x, "
      "f32[batch, tokens, 4]");
}

TEST(Experts, C3ThereIsAWeightForEachChosen) {
  EXPECT_EQ(infer(experts(1), {kX, kChosen, f32({"batch", "tokens", 3}), kUp, kUp, kDown}),
            "experts_c3: weights is f32[batch, tokens, 3], expected f32[batch, tokens, 2]");
}

TEST(Experts, C4ThreeKernelsAChunk) {
  EXPECT_EQ(infer(experts(2), {kX, kChosen, kWeights, kUp, kUp, kDown}),
            "experts_c4: chunks is 2, and there are 3 kernels, expected three a chunk");
  EXPECT_EQ(infer(experts(2),
                  {kX, kChosen, kWeights, kUp, f32({2, 4, 5}), kUp, f32({2, 4, 5}), kDown, f32({2, 5, 4})}),
            "f32[batch, tokens, 4]");
}

TEST(Experts, C5GateAndUpLieAlike) {
  EXPECT_EQ(infer(experts(1), {kX, kChosen, kWeights, kUp, f32({2, 4, 5}), kDown}),
            "experts_c5: kernel 1 is f32[2, 4, 5], expected f32[3, 4, 5]");
}

TEST(Experts, C6DownIsTheOtherWayRound) {
  EXPECT_EQ(infer(experts(1), {kX, kChosen, kWeights, kUp, kUp, kUp}),
            "experts_c6: kernel 2 is f32[3, 4, 5], expected f32[3, 5, 4]");
}

TEST(Experts, C7LayoutIsOneOfTwo) {
  EXPECT_EQ(infer(experts(1, "x"), {kX, kChosen, kWeights, kUp, kUp, kDown}),
            "experts_c7: layout is \"x\", expected \"in_out\" or \"out_in\"");
}

TEST(Experts, C9TheActivationIsKnown) {
  EXPECT_EQ(infer(experts(1, "in_out", "swish"), {kX, kChosen, kWeights, kUp, kUp, kDown}),
            "experts_c9: hidden_act is \"swish\", expected one of \"silu\", \"gelu\", "
            "\"gelu_pytorch_tanh\", \"relu\"");
}

double silu(double x) { return x / (1 + std::exp(-x)); }

// Three experts of one channel in two chunks, so that expert 2 is the first of the second chunk.
const Value<double> kGate01{{2, 1, 1}, {1, 2}}, kGate2{{1, 1, 1}, {3}}, kUp01{{2, 1, 1}, {10, 20}},
    kUp2{{1, 1, 1}, {30}};
const Value<double> kDown01{{2, 1, 1}, {0.5, 0.25}}, kDown2{{1, 1, 1}, {0.125}};

TEST(Experts, NumbersRunThroughTheChunksAndOnlyTheGateIsActivated) {
  const auto y = run_f64(experts(2), {{{1, 1, 1}, {1}},
                                      {{1, 1, 2}, {2, 1}},
                                      {{1, 1, 2}, {7, 9}},
                                      kGate01,
                                      kGate2,
                                      kUp01,
                                      kUp2,
                                      kDown01,
                                      kDown2})
                     .value()[0];
  EXPECT_NEAR(y.data[0], 7 * 0.125 * silu(3) * 30 + 9 * 0.25 * silu(2) * 20, 1e-12);
}

// A gate of -1 and one of 2: relu drops the first.
TEST(Experts, TheAttributeChoosesTheActivation) {
  const Value<double> one{{1, 1, 1}, {1}}, first{{1, 1, 1}, {0}}, gates{{1, 1, 2}, {-1, 2}};
  const Value<double> ups{{1, 1, 2}, {10, 20}}, downs{{1, 2, 1}, {1, 1}};
  const auto y = run_f64(experts(1, "in_out", "relu"), {one, first, one, gates, ups, downs}).value()[0];
  EXPECT_EQ(y.data[0], 2 * 20);
}

TEST(Experts, C8AChosenExpertExists) {
  const auto bad = run_f64(
      experts(2),
      {{{1, 1, 1}, {1}}, {{1, 1, 1}, {3}}, {{1, 1, 1}, {1}}, kGate01, kGate2, kUp01, kUp2, kDown01, kDown2});
  EXPECT_EQ(bad.error().message(), "experts_c8: chosen expert 3 is not one of 3");
}

// What is not chosen is not read: a NaN in it would show.
TEST(Experts, ExpertsThatAreNotChosenAreNotComputed) {
  const Value<double> gate{{2, 1, 1}, {std::nan(""), 2}};
  const auto y =
      run_f64(experts(1), {{{1, 1, 1}, {1}}, {{1, 1, 1}, {1}}, {{1, 1, 1}, {1}}, gate, kUp01, kDown01})
          .value()[0];
  EXPECT_NEAR(y.data[0], 0.25 * silu(2) * 20, 1e-12);
}

TEST(Experts, BothLayoutsComputeTheSame) {
  const Value<double> x{{1, 1, 2}, {1, 2}}, chosen{{1, 1, 1}, {0}}, weight{{1, 1, 1}, {1}};
  const Value<double> in_out{{1, 2, 3}, {1, 2, 3, 4, 5, 6}}, out_in{{1, 3, 2}, {1, 4, 2, 5, 3, 6}};
  // Gate and up map 2 to 3 channels, down 3 to 2: the same numbers transposed serve for the other layout.
  const auto a = run_f64(experts(1, "in_out"), {x, chosen, weight, in_out, in_out, out_in}).value()[0];
  const auto b = run_f64(experts(1, "out_in"), {x, chosen, weight, out_in, out_in, in_out}).value()[0];
  EXPECT_EQ(a.data, b.data);
}

}  // namespace
}  // namespace tandem
