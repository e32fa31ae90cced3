#include "verify/odd_values.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

namespace tandem {
namespace {

/// Bit patterns without the sign. The sources are IEEE 754 and, for the eight bit types, the OCP 8-bit
/// floating point specification: e4m3fn has no infinity.
template <class Bits>
struct Format {
  Bits smallest_normal, infinity, first_nan;
};
template <class Bits>
constexpr Bits all_ones() {  // has the sign's bit: no value without sign equals it
  return std::numeric_limits<Bits>::max();
}

constexpr Format<uint64_t> kF64{0x0010000000000000, 0x7ff0000000000000, 0x7ff0000000000001};
constexpr Format<uint32_t> kF32{0x00800000, 0x7f800000, 0x7f800001};
constexpr Format<uint16_t> kBf16{0x0080, 0x7f80, 0x7f81};
constexpr Format<uint16_t> kF16{0x0400, 0x7c00, 0x7c01};
constexpr Format<uint8_t> kE4m3{0x08, all_ones<uint8_t>(), 0x7f};
constexpr Format<uint8_t> kE5m2{0x04, 0x7c, 0x7d};

// A block has a fixed number of values, so that the loop over it is made of vector instructions; and few
// enough for counts in the values' own width, the narrowest of which holds 127.
constexpr size_t kBlock = 64;

template <class Bits>
void count_block(const Format<Bits>& format, const std::array<Bits, kBlock>& block, OddValues& odd) {
  constexpr Bits kMagnitude = all_ones<Bits>() / 2;
  Bits nan = 0, infinite = 0, denormal = 0;
  for (size_t i = 0; i < kBlock; ++i) {
    const Bits bits = block[i] & kMagnitude;
    nan = static_cast<Bits>(nan + (bits >= format.first_nan));
    infinite = static_cast<Bits>(infinite + (bits == format.infinity));
    denormal = static_cast<Bits>(denormal + ((bits != 0) & (bits < format.smallest_normal)));
  }
  odd.nan += nan;
  odd.infinite += infinite;
  odd.denormal += denormal;
}

template <class Bits>
OddValues count(const Format<Bits>& format, std::span<const std::byte> values) {
  OddValues odd;
  std::array<Bits, kBlock> block;
  while (!values.empty()) {
    const size_t bytes = std::min(values.size(), sizeof block);
    if (bytes < sizeof block) block.fill(0);
    std::memcpy(block.data(), values.data(), bytes);
    count_block(format, block, odd);
    values = values.subspan(bytes);
  }
  return odd;
}

}  // namespace

OddValues& OddValues::operator+=(const OddValues& other) {
  nan += other.nan;
  infinite += other.infinite;
  denormal += other.denormal;
  return *this;
}

OddValues odd_values(DType dtype, std::span<const std::byte> values) {
  switch (dtype) {
    case DType::f64:
      return count(kF64, values);
    case DType::f32:
      return count(kF32, values);
    case DType::bf16:
      return count(kBf16, values);
    case DType::f16:
      return count(kF16, values);
    case DType::f8_e4m3:
      return count(kE4m3, values);
    case DType::f8_e5m2:
      return count(kE5m2, values);
    default:
      return {};
  }
}

}  // namespace tandem
