#include "contract/ops/rms_norm.h"

#include <gmock/gmock.h>

#include "contract/ops/op_testing.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;

Node rms_norm(double epsilon) { return node_of("rms_norm", {{"epsilon", epsilon}}); }

TEST(RmsNorm, C1XIsFloatAndHasALastAxis) {
  EXPECT_EQ(infer(rms_norm(1e-6), {f32({}), f32({8})}),
            "rms_norm_c1: x is f32[], expected a float type and a last axis");
}

TEST(RmsNorm, C2GainIsAsLongAsTheLastAxis) {
  EXPECT_EQ(infer(rms_norm(1e-6), {f32({"batch", 3, 8}), f32({8})}), "f32[batch, 3, 8]");
  EXPECT_EQ(infer(rms_norm(1e-6), {f32({"batch", 3, 8}), f32({7})}),
            "rms_norm_c2: gain is f32[7], expected f32[8]");
}

TEST(RmsNorm, C3EpsilonIsPositive) {
  EXPECT_EQ(infer(rms_norm(0), {f32({8}), f32({8})}), "rms_norm_c3: epsilon is 0, expected a number above 0");
}

// mean(3^2, 4^2) = 12.5 and epsilon makes it 16: a wrong place of epsilon, or a sum for the mean, gives other
// numbers.
TEST(RmsNorm, EpsilonIsAddedToTheMeanSquare) {
  EXPECT_THAT(run_f64(rms_norm(3.5), {{{1, 2}, {3, 4}}, {{2}, {1, 10}}}).value()[0].data,
              ElementsAre(0.75, 10));
}

}  // namespace
}  // namespace tandem
