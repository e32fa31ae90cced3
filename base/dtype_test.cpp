#include "base/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <vector>

namespace tandem {
namespace {

template <class T>
std::span<const std::byte> bytes(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

template <class To, class From>
std::vector<To> cast_all(DType from_dtype, const std::vector<From>& from, DType to_dtype,
                         CastCounts* counts = nullptr) {
  std::vector<To> to(from.size());
  const auto done = cast(from_dtype, bytes(from), to_dtype, std::as_writable_bytes(std::span(to)));
  EXPECT_TRUE(done.ok());
  if (counts) *counts = done.value();
  return to;
}

std::vector<uint16_t> all_16_bit_codes() {
  std::vector<uint16_t> codes(65536);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint16_t>(i);
  return codes;
}

TEST(DType, EverySpellingLeadsBack) {
  for (const DTypeRow& r : kDTypes) {
    EXPECT_EQ(dtype_named(r.name), r.dtype);
    EXPECT_EQ(dtype_named(r.long_name), r.dtype);
    EXPECT_EQ(dtype_of_safetensors(r.safetensors), r.dtype);
    EXPECT_EQ(dtype_of_tensorflow(r.tensorflow), r.dtype);
  }
  EXPECT_EQ(dtype_of_safetensors("bf16"), std::nullopt);
  EXPECT_EQ(dtype_of_tensorflow(0), std::nullopt);
}

TEST(Cast, D01AllBf16PatternsSurvive) {
  const auto codes = all_16_bit_codes();
  EXPECT_EQ(cast_all<uint16_t>(DType::bf16, codes, DType::bf16), codes);
  CastCounts counts;
  const auto wide = cast_all<uint32_t>(DType::bf16, codes, DType::f32);
  EXPECT_EQ(cast_all<uint16_t>(DType::f32, wide, DType::bf16, &counts), codes);
  EXPECT_EQ(counts.rounded + counts.flushed + counts.overflowed, 0u);
}

TEST(Cast, D02Bf16RoundsToNearestEven) {
  const std::vector<uint32_t> from{0x3F808000, 0x3F818000, 0x3F808001, 0x3DCCCCCD, 0x80000000, 0x00018000};
  const std::vector<uint16_t> expected{0x3F80, 0x3F82, 0x3F81, 0x3DCD, 0x8000, 0x0002};
  EXPECT_EQ(cast_all<uint16_t>(DType::f32, from, DType::bf16), expected);
}

// Every code of a small format survives the way through every wider one, NaN payloads included.
TEST(Cast, SmallFormatsSurviveWiderOnes) {
  const auto codes = all_16_bit_codes();
  for (DType wide : {DType::f32, DType::f64}) {
    std::vector<std::byte> there(codes.size() * size_of(wide));
    std::vector<uint16_t> back(codes.size());
    ASSERT_TRUE(cast(DType::f16, bytes(codes), wide, there).ok());
    ASSERT_TRUE(cast(wide, there, DType::f16, std::as_writable_bytes(std::span(back))).ok());
    EXPECT_EQ(back, codes) << name(wide);
  }
  std::vector<uint8_t> small(256);
  for (size_t i = 0; i < 256; ++i) small[i] = static_cast<uint8_t>(i);
  for (DType narrow : {DType::f8_e4m3, DType::f8_e5m2})
    for (DType wide : {DType::bf16, DType::f16, DType::f32, DType::f64}) {
      std::vector<std::byte> there(small.size() * size_of(wide));
      std::vector<uint8_t> back(small.size());
      ASSERT_TRUE(cast(narrow, bytes(small), wide, there).ok());
      const auto counts = cast(wide, there, narrow, std::as_writable_bytes(std::span(back)));
      EXPECT_EQ(back, small) << name(narrow) << " through " << name(wide);
      EXPECT_EQ(counts.value().rounded, 0u);
    }
}

// What a code means, from the definition of its format and nothing of ours.
double meaning(uint32_t code, int exponent_bits, int mantissa_bits, bool fn) {
  const uint32_t mantissa = code & ((1u << mantissa_bits) - 1);
  const uint32_t field = code >> mantissa_bits & ((1u << exponent_bits) - 1);
  const double sign = code >> (exponent_bits + mantissa_bits) ? -1 : 1;
  const uint32_t top = (1u << exponent_bits) - 1;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  if (fn ? field == top && mantissa == (1u << mantissa_bits) - 1 : field == top && mantissa != 0)
    return std::numeric_limits<double>::quiet_NaN();
  if (!fn && field == top) return sign * std::numeric_limits<double>::infinity();
  if (field == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1u << mantissa_bits), static_cast<int>(field) - bias - mantissa_bits);
}

// A small format with its codes sorted by value: rounding by search. `above` stands for what lies past the
// largest number, at the value that the next exponent step would have.
struct Searched {
  int exponent_bits, mantissa_bits;
  bool fn;
  std::map<double, uint32_t> magnitudes;
  uint32_t sign_bit;

  Searched(int exponents, int mantissas, bool finite_only)
      : exponent_bits(exponents),
        mantissa_bits(mantissas),
        fn(finite_only),
        sign_bit(1u << (exponents + mantissas)) {
    uint32_t code = 0;
    for (; std::isfinite(meaning(code, exponent_bits, mantissa_bits, fn)); ++code)
      magnitudes[meaning(code, exponent_bits, mantissa_bits, fn)] = code;
    const double largest = magnitudes.rbegin()->first;
    const double step = largest - std::prev(magnitudes.end(), 2)->first;
    magnitudes[largest + step] = code;
  }

  uint32_t nearest(double value) const {
    const uint32_t sign = std::signbit(value) ? sign_bit : 0;
    const double magnitude = std::fabs(value);
    const auto above = magnitudes.lower_bound(magnitude);
    if (above == magnitudes.end()) return sign | magnitudes.rbegin()->second;
    if (above->first == magnitude) return sign | above->second;
    const auto below = std::prev(above);
    const double up = above->first - magnitude, down = magnitude - below->first;
    if (up != down) return sign | (up < down ? above : below)->second;
    return sign | (above->second % 2 == 0 ? above : below)->second;
  }
};

std::vector<float> probes(const Searched& format) {
  std::vector<float> values{
      0.0f, -0.0f, 1e-30f, -1e-30f, 1e30f, -1e30f, std::numeric_limits<float>::infinity()};
  // Every number of the format, every midpoint, and their neighbours.
  for (auto at = format.magnitudes.begin(); std::next(at) != format.magnitudes.end(); ++at)
    for (double value : {at->first, (at->first + std::next(at)->first) / 2})
      for (float near : {std::nextafter(static_cast<float>(value), -1.0f), static_cast<float>(value),
                         std::nextafter(static_cast<float>(value), 1e38f)}) {
        values.push_back(near);
        values.push_back(-near);
      }
  std::mt19937 random(7);
  for (int i = 0; i < 200'000; ++i) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (!std::isnan(value)) values.push_back(value);
  }
  std::uniform_real_distribution<float> exponent(-28, 20);
  for (int i = 0; i < 200'000; ++i) values.push_back(std::exp2(exponent(random)));
  return values;
}

TEST(Cast, F8E4m3IsTheNearestOfAllCodes) {
  const Searched format(4, 3, true);
  ASSERT_EQ(format.magnitudes.size(), 128u);
  for (float value : probes(format)) ASSERT_EQ(f32_to_f8_e4m3(value), format.nearest(value)) << value;
  EXPECT_EQ(f32_to_f8_e4m3(448.0f), 0x7e);
  EXPECT_EQ(f32_to_f8_e4m3(464.0f), 0x7e) << "a tie, to even";
  EXPECT_EQ(f32_to_f8_e4m3(465.0f), 0x7f);
}

TEST(Cast, F8E5m2IsTheNearestOfAllCodes) {
  const Searched format(5, 2, false);
  for (float value : probes(format)) ASSERT_EQ(f32_to_f8_e5m2(value), format.nearest(value)) << value;
}

TEST(Cast, F16IsTheNearestOfAllCodes) {
  const Searched format(5, 10, false);
  for (float value : probes(format)) ASSERT_EQ(f32_to_f16(value), format.nearest(value)) << value;
}

TEST(Cast, Bf16IsTheNearestOfAllCodesInBothWays) {
  const Searched format(8, 7, false);
  const auto values = probes(format);
  const auto many = cast_all<uint16_t>(DType::f32, values, DType::bf16);
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(many[i], format.nearest(values[i])) << values[i];
    ASSERT_EQ(f32_to_bf16(values[i]), many[i]) << values[i];
  }
}

void expect_same(double value, double meant, uint32_t code) {
  if (std::isnan(meant)) {
    ASSERT_TRUE(std::isnan(value)) << code;
  } else {
    ASSERT_EQ(value, meant) << code;
    ASSERT_EQ(std::signbit(value), std::signbit(meant)) << code;
  }
}

TEST(Cast, CodesMeanWhatTheirFormatSays) {
  for (uint32_t code = 0; code < 65536; ++code) {
    expect_same(f16_to_f32(static_cast<uint16_t>(code)), meaning(code, 5, 10, false), code);
    expect_same(bf16_to_f32(static_cast<uint16_t>(code)), meaning(code, 8, 7, false), code);
  }
  for (uint32_t code = 0; code < 256; ++code) {
    expect_same(f8_e4m3_to_f32(static_cast<uint8_t>(code)), meaning(code, 4, 3, true), code);
    expect_same(f8_e5m2_to_f32(static_cast<uint8_t>(code)), meaning(code, 5, 2, false), code);
  }
}

// f64 to bf16 by way of f32 would round twice: 1 + 2^-8 + 2^-40 is a tie once it has been through f32.
TEST(Cast, F64RoundsOnce) {
  const std::vector<double> values{1 + std::ldexp(1, -8) + std::ldexp(1, -40), 1 + std::ldexp(1, -8), 0.1,
                                   -1e300, 5e-324};
  const std::vector<uint16_t> expected{0x3F81, 0x3F80, 0x3DCD, 0xFF80, 0x0000};
  CastCounts counts;
  EXPECT_EQ(cast_all<uint16_t>(DType::f64, values, DType::bf16, &counts), expected);
  EXPECT_EQ(counts.rounded, 5u);
  EXPECT_EQ(counts.overflowed, 1u);
  EXPECT_EQ(counts.flushed, 1u);
}

TEST(Cast, F64ToF32IsTheProcessorsRounding) {
  std::mt19937_64 random(11);
  std::vector<double> values;
  while (values.size() < 300'000) {
    const double value = std::bit_cast<double>(
        random() % 4 ? (random() & ~(0x7ffull << 52)) | (870 + random() % 300) << 52 : random());
    if (!std::isnan(value)) values.push_back(value);
  }
  const auto made = cast_all<float>(DType::f64, values, DType::f32);
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(std::bit_cast<uint32_t>(made[i]), std::bit_cast<uint32_t>(static_cast<float>(values[i])))
        << values[i];
}

TEST(Cast, NaNKeepsSignAndHighPayload) {
  // quiet, negative with payload, signalling with a payload only in low bits (which would become infinity)
  const std::vector<uint32_t> from{0x7fc00000, 0xffa50000, 0x7f800001};
  EXPECT_EQ(cast_all<uint16_t>(DType::f32, from, DType::bf16),
            (std::vector<uint16_t>{0x7fc0, 0xffa5, 0x7fc0}));
  EXPECT_EQ(cast_all<uint16_t>(DType::f32, from, DType::f16),
            (std::vector<uint16_t>{0x7e00, 0xfd28, 0x7e00}));
  EXPECT_EQ(cast_all<uint8_t>(DType::f32, from, DType::f8_e4m3), (std::vector<uint8_t>{0x7f, 0xff, 0x7f}));
  CastCounts counts;
  cast_all<uint16_t>(DType::f32, from, DType::bf16, &counts);
  EXPECT_EQ(counts.rounded, 0u);
}

TEST(Cast, CountsWhatWasLost) {
  const std::vector<float> values{1.0f, 0.1f, 3.4e38f, -1e-45f, 0.0f, std::numeric_limits<float>::infinity()};
  CastCounts counts;
  cast_all<uint16_t>(DType::f32, values, DType::bf16, &counts);
  EXPECT_EQ(counts.rounded, 3u);
  EXPECT_EQ(counts.overflowed, 1u);
  EXPECT_EQ(counts.flushed, 1u);
  cast_all<uint8_t>(DType::f32, values, DType::f8_e4m3, &counts);
  EXPECT_EQ(counts.rounded, 4u) << "infinity has no e4m3 code";
  EXPECT_EQ(counts.overflowed, 1u) << "but it was not finite";
}

TEST(Cast, C1OnlyFloatsConvert) {
  const std::vector<int32_t> from{1};
  std::vector<float> to(1);
  const auto done = cast(DType::i32, bytes(from), DType::f32, std::as_writable_bytes(std::span(to)));
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().message(), "cast_c1: i32 does not convert to f32: only float types convert");
  std::vector<int32_t> same(1);
  EXPECT_TRUE(cast(DType::i32, bytes(from), DType::i32, std::as_writable_bytes(std::span(same))).ok());
  EXPECT_EQ(same, from);
}

TEST(Cast, BytesNeedNoAlignment) {
  std::vector<std::byte> from(2 * 100 + 1), to(4 * 100 + 1);
  from[1 + 2 * 57 + 1] = std::byte{0x40};  // element 57 is 2
  ASSERT_TRUE(cast(DType::bf16, std::span(from).subspan(1), DType::f32, std::span(to).subspan(1)).ok());
  float value = 0;
  std::memcpy(&value, to.data() + 1 + 4 * 57, 4);
  EXPECT_EQ(value, 2.0f);
}

}  // namespace
}  // namespace tandem
