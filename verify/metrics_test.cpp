#include "verify/metrics.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

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

TEST(Metrics, SumsOfPartsAreTheWhole) {
  Metrics whole, first, second;
  const std::array a{1.0f, 2.0f}, b{1.5f, 2.0f}, c{0.0f, -3.0f}, d{0.0f, -1.0f};
  add_row(whole, a, b, kGap);
  add_row(whole, c, d, kGap);
  add_row(first, a, b, kGap);
  add_row(second, c, d, kGap);
  first += second;
  EXPECT_EQ(first.max_abs_error, 2);
  EXPECT_EQ(first.mean_abs_error(), whole.mean_abs_error());
  EXPECT_EQ(first.mean_kl(), whole.mean_kl());
  EXPECT_EQ(first.rms(), whole.rms());
}

}  // namespace
}  // namespace tandem
