#include "verify/tolerance.h"

#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <limits>

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Metrics metrics_of(std::array<float, 2> reference, std::array<float, 2> other) {
  Metrics metrics;
  add_row(metrics, reference, other, tolerance_of(DType::f32).top1_gap);
  return metrics;
}

TEST(Tolerance, NothingComparedFails) {
  EXPECT_THAT(failures(Metrics{}, tolerance_of(DType::f32), 0), ElementsAre("nothing was compared"));
}

TEST(Tolerance, TheBarGrowsWithTheLogits) {
  // 2e-5 apart: too far where logits are below 1, fine where their rms is 10 (bar 1e-4).
  EXPECT_THAT(failures(metrics_of({0.5f, 0.1f}, {0.50002f, 0.1f}), tolerance_of(DType::f32), 0),
              ElementsAre(::testing::HasSubstr("max_abs_error 2e-05 is above 1e-05")));
  EXPECT_THAT(failures(metrics_of({10.0f, -10.0f}, {10.00002f, -10.0f}), tolerance_of(DType::f32), 0),
              IsEmpty());
}

TEST(Tolerance, AnAbsoluteBarTakesItsPlace) {
  EXPECT_THAT(failures(metrics_of({10.0f, -10.0f}, {10.00002f, -10.0f}), tolerance_of(DType::f32), 1e-6),
              ElementsAre(::testing::HasSubstr("is above 1e-06")));
}

TEST(Tolerance, NaNFails) {
  EXPECT_THAT(failures(metrics_of({0.0f / 0.0f, 1.0f}, {0.0f, 1.0f}), tolerance_of(DType::bf16), 0),
              ElementsAre("2 logits in rows with NaN or infinity"));
}

// Both logits are within the absolute bar (0.2 in bfloat16), and the divergence within its own; but the loss
// is off by more than either, and would be for every token.
TEST(Tolerance, ALossThatLeansToOneSideFails) {
  Metrics metrics;
  add_row(metrics, std::array{0.5f, -0.5f}, std::array{0.69f, -0.69f}, 1, 1);
  EXPECT_THAT(failures(metrics, tolerance_of(DType::bf16), 0),
              ElementsAre(::testing::HasSubstr("loss differs by 0.29")));
  metrics = {};
  add_row(metrics, std::array{0.5f, -0.5f}, std::array{0.69f, -0.69f}, 1, 0);  // the likely id
  EXPECT_THAT(failures(metrics, tolerance_of(DType::bf16), 0), IsEmpty());
}

TEST(Tolerance, WithoutAnAbsoluteBarTheDivergenceBoundsTheLoss) {
  const Tolerance& table = tolerance_of(DType::f32);
  EXPECT_DOUBLE_EQ(loss_bar(table, 0.5, 0), 1e-5);
  EXPECT_DOUBLE_EQ(loss_bar(table, 3, 0), 3e-5);
  EXPECT_DOUBLE_EQ(loss_bar(table, 3, 0.25), 0.25);
  EXPECT_DOUBLE_EQ(loss_bar(table, 3, std::numeric_limits<double>::infinity()), 3 * std::sqrt(2e-9));
}

TEST(Tolerance, OneInAThousandDecidedTokensMayDiffer) {
  Metrics metrics;
  metrics.compared = 1;
  metrics.decided = 2000;
  metrics.decided_same = 1998;
  EXPECT_THAT(failures(metrics, tolerance_of(DType::f32), 0), IsEmpty());
  metrics.decided_same = 1997;
  EXPECT_THAT(failures(metrics, tolerance_of(DType::f32), 0),
              ElementsAre("top1 differs at 3 of 2000 decided tokens"));
}

TEST(FromExact, TheOtherSideMayBeFourTimesAsFarAsTheReference) {
  FromExact d{1e-4, 1e-5, 4e-4, 4e-5, 10};
  EXPECT_THAT(failures(d), IsEmpty());
  d.other_max = 4.1e-4;
  EXPECT_THAT(failures(d), ElementsAre("largest error from float64 is 0.00041, above 0.0004"));
  d.other_rms = 5e-5;
  EXPECT_THAT(failures(d), ElementsAre(::testing::_, "rms error from float64 is 5e-05, above 4e-05"));
}

TEST(FromExact, AReferenceFarFromTheContractIsAFindingOfItsOwn) {
  EXPECT_THAT(
      failures(FromExact{0.02, 0.02, 0.02, 0.02, 10}),
      ElementsAre(::testing::HasSubstr("contract and reference disagree: the reference is 0.02 from")));
}

TEST(FromExact, RoundingOfAnExactReferenceIsNotHeldAgainstTheOther) {
  EXPECT_THAT(failures(FromExact{0, 0, 2e-6, 2e-6, 10}), IsEmpty());
}

TEST(Tolerance, EveryRowHasAReasonAndWiderTypesHaveFloat32s) {
  for (const Tolerance& tolerance : kTolerances) EXPECT_FALSE(tolerance.reason.empty());
  EXPECT_EQ(tolerance_of(DType::f64).dtype, DType::f32);
}

}  // namespace
}  // namespace tandem
