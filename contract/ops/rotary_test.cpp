#include "contract/ops/rotary.h"

#include <gmock/gmock.h>

#include "contract/ops/op_testing.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;

Node rotary(bool interleaved) { return node_of("rotary", {{"interleaved", interleaved}}); }

TEST(Rotary, C1TheLastAxisIsEven) {
  const TensorType table = f32({"batch", "tokens", 4});
  EXPECT_EQ(infer(rotary(false), {f32({"batch", 2, "tokens", 4}), table, table}), "f32[batch, 2, tokens, 4]");
  EXPECT_EQ(infer(rotary(false), {f32({"batch", 2, "tokens", 3}), table, table}),
            "rotary_c1: x is f32[batch, 2, tokens, 3], expected a float type and [batch, heads, tokens, dim] "
            "with an "
            "even dim");
}

TEST(Rotary, C2TheTableHasARowAToken) {
  const TensorType table = f32({"batch", "tokens", 4});
  EXPECT_EQ(infer(rotary(false), {f32({"batch", 2, "tokens", 4}), table, f32({"batch", "tokens", 2})}),
            "rotary_c2: cos or sin is f32[batch, tokens, 2], expected f32[batch, tokens, 4]");
}

/// The dot product of q = [1, 2, 3, 4] at a position with k = [1, 1, 1, 1] at 0; size 4, theta 10000.
double score(bool interleaved, double position) {
  const Node table = node_of("rotary_table", {{"dim", int64_t{4}},
                                              {"theta", 10000.0},
                                              {"type", std::string("default")},
                                              {"dtype", std::string("f64")}});
  const auto angles = run_f64(table, {{{1, 1}, {position}}}).value();
  const auto still = run_f64(table, {{{1, 1}, {0}}}).value();
  const auto q =
      run_f64(rotary(interleaved), {{{1, 1, 1, 4}, {1, 2, 3, 4}}, angles[0], angles[1]}).value()[0];
  const auto k = run_f64(rotary(interleaved), {{{1, 1, 1, 4}, {1, 1, 1, 1}}, still[0], still[1]}).value()[0];
  double sum = 0;
  for (size_t i = 0; i < 4; ++i) sum += q.data[i] * k.data[i];
  return sum;
}

TEST(Rotary, R01AdjacentPairsAndHalvesAreNotTheSame) {
  EXPECT_NEAR(score(true, 1), 7.769086, 1e-6);
  EXPECT_NEAR(score(false, 1), 6.457968, 1e-6);
  EXPECT_NEAR(score(true, 5), 8.751183, 1e-6);
  EXPECT_NEAR(score(false, 5), 8.945041, 1e-6);
  EXPECT_NEAR(score(true, 0), 10, 1e-12);
  EXPECT_NEAR(score(false, 0), 10, 1e-12);
}

TEST(Rotary, InterleavedLanesComeOutAsEvensThenOdds) {
  const Value<double> cos{{1, 1, 4}, {1, 1, 1, 1}}, sin{{1, 1, 4}, {0, 0, 0, 0}};
  EXPECT_THAT(run_f64(rotary(true), {{{1, 1, 1, 4}, {1, 2, 3, 4}}, cos, sin}).value()[0].data,
              ElementsAre(1, 3, 2, 4));
}

// Two sequences, two heads, two tokens: each row must meet the angle of its own sequence and token.
TEST(Rotary, EveryHeadTurnsByItsTokensAngle) {
  const Value<double> x{{2, 2, 2, 2}, std::vector<double>(16, 1)};
  const Value<double> cos{{2, 2, 2}, {1, 1, 2, 2, 3, 3, 4, 4}}, sin{{2, 2, 2}, std::vector<double>(8, 0)};
  EXPECT_THAT(run_f64(rotary(false), {x, cos, sin}).value()[0].data,
              ElementsAre(1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4));
}

}  // namespace
}  // namespace tandem
