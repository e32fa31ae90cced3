#include "base/shape.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

constexpr uint64_t kMax = ~uint64_t{0};

TEST(Shape, CheckedArithmetic) {
  EXPECT_EQ(checked_add(kMax - 1, 1), kMax);
  EXPECT_EQ(checked_add(kMax, 1), std::nullopt);
  EXPECT_EQ(checked_mul(1ull << 32, (1ull << 32) - 1), (1ull << 32) * ((1ull << 32) - 1));
  EXPECT_EQ(checked_mul(1ull << 32, 1ull << 32), std::nullopt);
}

TEST(Shape, CountsElementsAndBytes) {
  EXPECT_EQ(element_count(Shape{}).value(), 1u);
  EXPECT_EQ(element_count(Shape{2, 0}).value(), 0u);
  EXPECT_EQ(byte_count(DType::f32, {2, 3}).value(), 24u);
}

TEST(Shape, C1ProductOverflows) {
  const auto count = element_count(Shape{2, kMax - 1});
  ASSERT_FALSE(count.ok());
  EXPECT_EQ(count.error().message(),
            "shape_c1: shape [2, 18446744073709551614] has more elements than 64 bits count");
}

TEST(Shape, C1ProductOverflowsBehindAZero) {
  EXPECT_FALSE(element_count(Shape{0, 1ull << 63, 2}).ok());
  EXPECT_EQ(element_count(Shape{0, 1ull << 63}).value(), 0u);
}

TEST(Shape, C1OnlyTheBytesOverflow) {
  const auto bytes = byte_count(DType::f64, {1ull << 61});
  ASSERT_FALSE(bytes.ok());
  EXPECT_EQ(bytes.error().rule, "shape_c1");
}

TEST(Shape, Prints) {
  EXPECT_EQ(to_string(Shape{}), "[]");
  EXPECT_EQ(to_string(Shape{2, 3}), "[2, 3]");
}

TEST(Box, ContainsWithoutOverflow) {
  EXPECT_TRUE(contains({4, 5}, whole({4, 5})));
  EXPECT_TRUE(contains({4, 5}, {{4, 0}, {0, 5}}));
  EXPECT_FALSE(contains({4, 5}, {{1, 0}, {4, 5}}));
  EXPECT_FALSE(contains({4, 5}, {{1, 1}, {kMax, 1}}));
  EXPECT_FALSE(contains({4, 5}, {{0}, {4}}));
  EXPECT_EQ(element_count(Box{{1, 1}, {2, 3}}), 6u);
}

}  // namespace
}  // namespace tandem
