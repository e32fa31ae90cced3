#include "rules/dequantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace tandem {
namespace {

/// Decoded, multiplied and cast one by one.
CastCounts plainly(const std::vector<std::byte>& codes, float scale, std::vector<std::byte>& out) {
  std::vector<float> values;
  for (const std::byte code : codes) values.push_back(f8_e4m3_to_f32(static_cast<uint8_t>(code)) * scale);
  out.resize(2 * codes.size());
  return cast(DType::f32, std::as_bytes(std::span(values)), DType::bf16, out).value();
}

void expect_same(const std::vector<std::byte>& codes, float scale) {
  std::vector<std::byte> expected, made(2 * codes.size() + 1);
  const CastCounts counts = plainly(codes, scale, expected);
  const CastCounts ours =
      dequantize_to_bf16(codes.data(), codes.size(), scale, made.data() + 1);  // not aligned
  ASSERT_TRUE(std::equal(expected.begin(), expected.end(), made.begin() + 1))
      << scale << ", " << codes.size();
  EXPECT_EQ(ours.rounded, counts.rounded) << scale;
  EXPECT_EQ(ours.flushed, counts.flushed) << scale;
  EXPECT_EQ(ours.overflowed, counts.overflowed) << scale;
}

TEST(DequantizeToBf16, EveryCodeUnderEveryKindOfScale) {
  std::vector<std::byte> all, no_nan;
  for (int code = 0; code < 256; code++) {
    all.push_back(static_cast<std::byte>(code));
    if ((code & 0x7f) != 0x7f) no_nan.push_back(static_cast<std::byte>(code));
  }
  for (const float scale : {1.0f, -0.0123456f, 1e-3f, 3.14159f, 0x1p-100f, 0x1.fffffep-101f, 0x1p100f,
                            0x1.000002p100f, 1.2e-38f, 1e-44f, 7.5e35f, 7.59e35f, 3e38f}) {
    expect_same(all, scale);
    expect_same(no_nan, scale);
  }
}

TEST(DequantizeToBf16, RunsOfEveryLength) {
  for (size_t size = 0; size < 70; size++) {
    std::vector<std::byte> codes;
    for (size_t i = 0; i < size; i++) codes.push_back(static_cast<std::byte>(i * 37 % 256));
    expect_same(codes, 0.0371f);
  }
}

}  // namespace
}  // namespace tandem
