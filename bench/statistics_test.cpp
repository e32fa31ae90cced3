#include "bench/statistics.h"

#include <gtest/gtest.h>

#include <vector>

namespace tandem {
namespace {

TEST(Statistics, TheMedianOfAnEvenNumberLiesBetweenTheMiddleTwo) {
  EXPECT_EQ(median_interval(std::vector<double>{4, 1, 3, 100}).median, 3.5);
  EXPECT_EQ(median_interval(std::vector<double>{4, 1, 100}).median, 4);
}

TEST(Statistics, TheIntervalHoldsTheMedianAndNarrowsWithMoreValues) {
  std::vector<double> few{1, 2, 3, 4, 5}, many;
  for (int i = 0; i < 40; ++i) many.insert(many.end(), few.begin(), few.end());
  const Interval wide = median_interval(few), narrow = median_interval(many);
  EXPECT_LE(wide.low, wide.median);
  EXPECT_GE(wide.high, wide.median);
  EXPECT_LT(narrow.high - narrow.low, wide.high - wide.low);
}

TEST(Statistics, OneValueIsItsOwnIntervalAndNoneIsZero) {
  const Interval one = median_interval(std::vector<double>{7});
  EXPECT_EQ(one.low, 7);
  EXPECT_EQ(one.high, 7);
  EXPECT_EQ(median_interval({}).high, 0);
}

TEST(Statistics, RatiosAreOfNeighbours) {
  // The machine was half as fast for the last pair: it does not matter.
  const std::vector<double> a{2, 2, 4}, b{1, 1, 2};
  const Interval ratio = ratio_interval(a, b);
  EXPECT_EQ(ratio.low, 2);
  EXPECT_EQ(ratio.high, 2);
}

}  // namespace
}  // namespace tandem
