#include "verify/weights_level.h"

#include <gmock/gmock.h>

#include <cstring>
#include <limits>

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <class T>
void add(MemorySource& source, const std::string& name, DType dtype, std::vector<T> values) {
  std::vector<std::byte> data(values.size() * sizeof(T));
  std::memcpy(data.data(), values.data(), data.size());
  source.add({name, dtype, {values.size()}}, std::move(data));
}

WeightsLevel compare(const MemorySource& left, const MemorySource& right) {
  return compare_weights(left, right).value();
}

TEST(WeightsLevel, NothingComparedDoesNotPass) {
  const MemorySource empty;
  EXPECT_FALSE(compare(empty, empty).passed());
}

TEST(WeightsLevel, EqualBitsPassNaNsIncluded) {
  MemorySource one;
  add(one, "w", DType::f32, std::vector<float>{1, std::numeric_limits<float>::quiet_NaN(), 0x1p-149f, -0.0f});
  const WeightsLevel level = compare(one, one);
  EXPECT_TRUE(level.passed());
  EXPECT_EQ(level.values, 4u);
  EXPECT_EQ(level.left_odd, (OddValues{1, 0, 1}));
}

TEST(WeightsLevel, TheSignOfZeroIsADifferenceAndItsPlaceIsNamed) {
  MemorySource left, right;
  add(left, "w", DType::f32, std::vector<float>{1, 0.0f});
  add(right, "w", DType::f32, std::vector<float>{1, -0.0f});
  const WeightsLevel level = compare(left, right);
  EXPECT_FALSE(level.passed());
  EXPECT_THAT(level.different, ElementsAre("w (float32 and float32): differs first at element 1 of 2"));
}

TEST(WeightsLevel, D02TheNarrowerSideMustBeTheWiderOneRoundedToNearestEven) {
  MemorySource wide, rounded, cut;
  add(wide, "w", DType::f32, std::vector<uint32_t>{0x3F808000, 0x3F818000, 0x3F808001});
  add(rounded, "w", DType::bf16, std::vector<uint16_t>{0x3F80, 0x3F82, 0x3F81});
  add(cut, "w", DType::bf16, std::vector<uint16_t>{0x3F80, 0x3F81, 0x3F80});
  const WeightsLevel good = compare(wide, rounded);
  EXPECT_TRUE(good.passed());
  EXPECT_EQ(good.rounded, 1u);
  EXPECT_EQ(good.narrowest, DType::bf16);
  EXPECT_THAT(compare(cut, wide).different, ElementsAre(HasSubstr("differs first at element 1 of 3")));
}

TEST(WeightsLevel, D02EitherOf16BitTypesMayBeMadeFromTheOther) {
  MemorySource bfloat, half, other;
  add(bfloat, "w", DType::bf16, std::vector<uint16_t>{0x3F80, 0x3281});  // 1 and 1.0078125 x 2^-26
  add(half, "w", DType::f16, std::vector<uint16_t>{0x3C00, 0x0000});     // the second is too small
  add(other, "w", DType::f16, std::vector<uint16_t>{0x3C00, 0x0001});
  EXPECT_TRUE(compare(bfloat, half).passed());
  EXPECT_TRUE(compare(half, bfloat).passed());
  EXPECT_EQ(compare(half, bfloat).rounded, 1u);
  EXPECT_FALSE(compare(bfloat, other).passed());
  EXPECT_FALSE(compare(other, bfloat).passed());
}

TEST(WeightsLevel, WideningChangesNothingAndIsNoRounding) {
  MemorySource narrow, wide;
  add(narrow, "w", DType::bf16, std::vector<uint16_t>{0x3F80, 0x8000});
  add(wide, "w", DType::f32, std::vector<float>{1.0f, -0.0f});
  const WeightsLevel level = compare(narrow, wide);
  EXPECT_TRUE(level.passed());
  EXPECT_EQ(level.rounded, 0u);
  EXPECT_EQ(level.narrowest, std::nullopt);
}

TEST(WeightsLevel, MissingTensorsAndOtherShapesAreAllListed) {
  MemorySource left, right;
  add(left, "a", DType::f32, std::vector<float>{1});
  add(left, "b", DType::f32, std::vector<float>{1});
  add(right, "b", DType::f32, std::vector<float>{1, 2});
  add(right, "c", DType::f32, std::vector<float>{1});
  const WeightsLevel level = compare(left, right);
  EXPECT_FALSE(level.passed());
  EXPECT_THAT(level.missing, ElementsAre("a: on the left only", "c: on the right only"));
  EXPECT_THAT(level.different, ElementsAre("b: shape [1] and [2]"));
}

TEST(WeightsLevel, AnErrorOfProgressEndsIt) {
  MemorySource one;
  add(one, "w", DType::f32, std::vector<float>{1});
  const auto stopped =
      compare_weights(one, one, [](uint64_t) -> Status { return unavailable("", "enough"); });
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().text, "enough");
}

}  // namespace
}  // namespace tandem
