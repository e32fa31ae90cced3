#include "verify/metrics.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace tandem {
namespace {

constexpr double kGap = 2e-5;

TEST(Metrics, EqualRowsHaveNoError) {
  Metrics metrics;
  const std::array row{1.0f, 2.0f, 3.0f};
  add_row(metrics, row, row, kGap);
  EXPECT_EQ(metrics.compared, 3u);
  EXPECT_EQ(metrics.max_abs_error, 0);
  EXPECT_EQ(metrics.max_kl, 0);
  EXPECT_EQ(metrics.top1_agreement(), 1);
  EXPECT_DOUBLE_EQ(metrics.rms(), std::sqrt(14.0 / 3));
}

TEST(Metrics, KlOfTwoKnownDistributions) {
  // Softmax of (ln 3, 0) is (3/4, 1/4), of (0, 0) is (1/2, 1/2): KL = 3/4 ln(3/2) + 1/4 ln(1/2).
  Metrics metrics;
  add_row(metrics, std::array{std::log(3.0f), 0.0f}, std::array{0.0f, 0.0f}, kGap);
  EXPECT_NEAR(metrics.max_kl, 0.75 * std::log(1.5) + 0.25 * std::log(0.5), 1e-7);
  EXPECT_NEAR(metrics.max_abs_error, std::log(3.0), 1e-7);
  EXPECT_NEAR(metrics.mean_abs_error(), std::log(3.0) / 2, 1e-7);
}

TEST(Metrics, KlOfLargeLogitsDoesNotOverflow) {
  Metrics metrics;
  add_row(metrics, std::array{1000.0f, 0.0f}, std::array{1000.0f, 1.0f}, kGap);
  EXPECT_NEAR(metrics.max_kl, 0, 1e-12);
}

TEST(Metrics, NearTieAtTheTopCountsOnlyInTheRawAgreement) {
  Metrics metrics;
  add_row(metrics, std::array{1.0f, 1.00001f}, std::array{1.00001f, 1.0f}, kGap);
  EXPECT_EQ(metrics.top1_agreement_raw(), 0);
  EXPECT_EQ(metrics.decided, 0u);
  EXPECT_EQ(metrics.top1_agreement(), 1);
  add_row(metrics, std::array{1.0f, 2.0f}, std::array{2.0f, 1.0f}, kGap);
  EXPECT_EQ(metrics.top1_agreement(), 0);
}

TEST(Metrics, NotANumberOnEitherSideIsCountedAndNeverEqual) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  Metrics metrics;
  add_row(metrics, std::array{kNan, 1.0f}, std::array{kNan, 1.0f}, kGap);
  EXPECT_EQ(metrics.not_finite, 2u);
  EXPECT_EQ(metrics.max_abs_error, 0);
  EXPECT_TRUE(std::isinf(row_error(std::array{1.0f}, std::array{std::numeric_limits<float>::infinity()})));
}

TEST(Metrics, SquaredErrorsAndCosineByHand) {
  // Errors 0, 1, -2: squares 5, of a reference of 9 + 16 + 0; dot product 9 + 20 + 0, other side 9 + 25 + 4.
  Metrics metrics;
  add_row(metrics, std::array{3.0f, 4.0f, 0.0f}, std::array{3.0f, 5.0f, -2.0f}, kGap);
  EXPECT_DOUBLE_EQ(metrics.nmse(), 5.0 / 25);
  EXPECT_DOUBLE_EQ(metrics.rms_error(), std::sqrt(5.0 / 3));
  EXPECT_DOUBLE_EQ(metrics.cosine(), 29 / (5 * std::sqrt(38.0)));
}

// One minus the cosine of values that differ in the last place is below float32's own rounding.
TEST(Metrics, CosineIsTakenInFloat64) {
  Metrics metrics;
  std::vector<float> a(1000, 1.0f), b(1000, 1.0f);
  b[0] = 1.001f;
  add_row(metrics, a, b, kGap);
  EXPECT_NEAR(1 - metrics.cosine(), 0.5e-6 * (1.0 / 1000 - 1e-6), 1e-12);
  EXPECT_GT(1 - metrics.cosine(), 0);
}

TEST(Metrics, ZeroVectorsAreEqualToEachOtherAlone) {
  Metrics zeros, one;
  add_row(zeros, std::array{0.0f}, std::array{0.0f}, kGap);
  add_row(one, std::array{0.0f}, std::array{1.0f}, kGap);
  EXPECT_EQ(zeros.cosine(), 1);
  EXPECT_EQ(zeros.nmse(), 0);
  EXPECT_EQ(one.cosine(), 0);
  EXPECT_TRUE(std::isinf(one.nmse()));
}

TEST(Metrics, TopKComparesSetsNotOrders) {
  const std::vector<float> reference{12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1};
  std::vector<float> other = reference;
  Metrics metrics;
  std::swap(other[0], other[4]);  // within the best 5
  add_row(metrics, reference, other, kGap);
  EXPECT_EQ(metrics.top_k_agreement(0), 1);
  EXPECT_EQ(metrics.top_k_agreement(1), 1);
  std::swap(other[1], other[9]);  // out of the best 5, within the best 10
  add_row(metrics, reference, other, kGap);
  EXPECT_EQ(metrics.top_k_agreement(0), 0.5);
  EXPECT_EQ(metrics.top_k_agreement(1), 1);
  std::swap(other[2], other[11]);
  add_row(metrics, reference, other, kGap);
  EXPECT_DOUBLE_EQ(metrics.top_k_agreement(1), 2.0 / 3);
}

TEST(Metrics, LargestAreInOrderAndOfEqualsTheLowestIdFirst) {
  using Ids = std::vector<uint32_t>;
  EXPECT_EQ(largest(std::array{1.0f, 3.0f, 2.0f, 3.0f, 1.0f}, 3), (Ids{1, 3, 2}));
  EXPECT_EQ(largest(std::array{5.0f, 5.0f, 5.0f}, 2), (Ids{0, 1}));
  EXPECT_EQ(largest(std::array{1.0f, 2.0f}, 5), (Ids{1, 0}));
}

TEST(Metrics, LossIsTheMeanOverTokensWithALabelInNats) {
  // Softmax of (ln 3, 0) is (3/4, 1/4), of (0, 0) is (1/2, 1/2).
  Metrics metrics;
  const std::array a{std::log(3.0f), 0.0f}, b{0.0f, 0.0f};
  add_row(metrics, a, b, kGap, 0);
  add_row(metrics, a, b, kGap, 1);
  add_row(metrics, a, b, kGap, kIgnoredLabel);
  EXPECT_EQ(metrics.labels, 2u);
  EXPECT_NEAR(metrics.loss(), -(std::log(0.75) + std::log(0.25)) / 2, 1e-7);
  EXPECT_NEAR(metrics.loss_other(), std::log(2.0), 1e-12);
  EXPECT_NEAR(metrics.loss_difference(), std::log(2.0) + (std::log(0.75) + std::log(0.25)) / 2, 1e-7);
}

TEST(Metrics, SumsOfPartsAreTheWhole) {
  Metrics whole, first, second;
  const std::array a{1.0f, 2.0f}, b{1.5f, 2.0f}, c{0.0f, -3.0f}, d{0.0f, -1.0f};
  add_row(whole, a, b, kGap, 1);
  add_row(whole, c, d, kGap, 0);
  add_row(first, a, b, kGap, 1);
  add_row(second, c, d, kGap, 0);
  first += second;
  EXPECT_EQ(first.max_abs_error, 2);
  EXPECT_EQ(first.mean_abs_error(), whole.mean_abs_error());
  EXPECT_EQ(first.mean_kl(), whole.mean_kl());
  EXPECT_EQ(first.rms(), whole.rms());
  EXPECT_EQ(first.nmse(), whole.nmse());
  EXPECT_EQ(first.cosine(), whole.cosine());
  EXPECT_EQ(first.loss_difference(), whole.loss_difference());
  EXPECT_NE(first.loss_difference(), 0);
  EXPECT_EQ(first.top_k_agreement(0), whole.top_k_agreement(0));
}

}  // namespace
}  // namespace tandem
