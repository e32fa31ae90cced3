#include "verify/odd_values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace tandem {
namespace {

/// What the C library says of every value, taken to float32 or float64 exactly.
OddValues by_the_library(DType dtype, std::span<const std::byte> bytes, double smallest_normal) {
  OddValues odd;
  std::vector<std::byte> wide(bytes.size() / size_of(dtype) * sizeof(float));
  if (dtype == DType::f64) {
    wide.assign(bytes.begin(), bytes.end());
  } else {
    EXPECT_TRUE(cast(dtype, bytes, DType::f32, wide).ok());
  }
  for (size_t i = 0; i < bytes.size() / size_of(dtype); ++i) {
    float narrow = 0;
    double value = 0;
    if (dtype == DType::f64) {
      std::memcpy(&value, wide.data() + i * sizeof value, sizeof value);
    } else {
      std::memcpy(&narrow, wide.data() + i * sizeof narrow, sizeof narrow);
      value = narrow;
    }
    odd.nan += std::isnan(value);
    odd.infinite += std::isinf(value);
    odd.denormal += value != 0 && std::abs(value) < smallest_normal;
  }
  return odd;
}

template <class Bits>
void every_pattern_of(DType dtype, double smallest_normal) {
  std::vector<Bits> patterns;
  // All patterns of 8 and 16 bits; of wider ones all settings of the highest 16 bits with odd ends.
  constexpr int kShift = 8 * sizeof(Bits) > 16 ? 8 * sizeof(Bits) - 16 : 0;
  for (uint32_t high = 0; high < (sizeof(Bits) == 1 ? 256u : 65536u); ++high)
    for (const uint32_t low : {0u, 1u})
      if (kShift || !low) patterns.push_back(static_cast<Bits>((uint64_t{high} << kShift) | low));
  for (size_t cut = 0; cut < 70; ++cut) {  // every length of a last block
    const auto bytes = std::as_bytes(std::span(patterns).subspan(cut));
    const OddValues odd = odd_values(dtype, bytes);
    ASSERT_EQ(odd, by_the_library(dtype, bytes, smallest_normal)) << name(dtype) << " without " << cut;
    ASSERT_GT(odd.nan, 0u);
    ASSERT_GT(odd.denormal, 0u);
  }
}

TEST(OddValues, CountsWhatTheLibrarySays) {
  every_pattern_of<uint64_t>(DType::f64, 0x1p-1022);
  every_pattern_of<uint32_t>(DType::f32, 0x1p-126);
  every_pattern_of<uint16_t>(DType::bf16, 0x1p-126);
  every_pattern_of<uint16_t>(DType::f16, 0x1p-14);
  every_pattern_of<uint8_t>(DType::f8_e4m3, 0x1p-6);
  every_pattern_of<uint8_t>(DType::f8_e5m2, 0x1p-14);
}

TEST(OddValues, IntegersHaveNone) {
  const std::vector<uint32_t> all_ones(9, ~0u);
  EXPECT_EQ(odd_values(DType::i32, std::as_bytes(std::span(all_ones))), OddValues());
}

}  // namespace
}  // namespace tandem
