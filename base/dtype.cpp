#include "base/dtype.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <type_traits>
#include <utility>

namespace tandem {
namespace {

// A binary float format. fn: no infinities, and only the all-ones code is NaN ("finite, NaN").
template <class BitsType, int kExponentBits, int kMantissaBits, bool kFn = false>
struct Format {
  using Bits = BitsType;
  static constexpr int kMantissa = kMantissaBits;
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr int kSignShift = kExponentBits + kMantissaBits;
  static constexpr bool kHasInfinity = !kFn;
  static constexpr uint64_t kMagnitude = (uint64_t{1} << kSignShift) - 1;
  static constexpr uint64_t kMantissaMask = (uint64_t{1} << kMantissaBits) - 1;
  /// The first code above all finite ones: infinity, or the NaN of an fn format.
  static constexpr uint64_t kAbove = kFn ? kMagnitude : kMagnitude & ~kMantissaMask;
  static constexpr bool is_nan(uint64_t magnitude) { return kFn ? magnitude == kAbove : magnitude > kAbove; }
};
using F64 = Format<uint64_t, 11, 52>;
using F32 = Format<uint32_t, 8, 23>;
using Bf16 = Format<uint16_t, 8, 7>;
using F16 = Format<uint16_t, 5, 10>;
using F8E4M3 = Format<uint8_t, 4, 3, true>;
using F8E5M2 = Format<uint8_t, 5, 2>;

template <class Bits>
struct Converted {
  Bits bits;
  bool rounded = false, overflowed = false, flushed = false;
};

constexpr uint64_t shifted(uint64_t value, int left) { return left >= 0 ? value << left : value >> -left; }

template <class To>
constexpr typename To::Bits with_sign(uint64_t sign, uint64_t magnitude) {
  return static_cast<typename To::Bits>(sign << To::kSignShift | magnitude);
}

template <class From, class To>
constexpr typename To::Bits convert_nan(uint64_t sign, uint64_t magnitude) {
  if (!To::kHasInfinity) return with_sign<To>(sign, To::kAbove);
  const uint64_t payload = shifted(magnitude & From::kMantissaMask, To::kMantissa - From::kMantissa);
  const uint64_t quiet = uint64_t{1} << (To::kMantissa - 1);
  return with_sign<To>(sign, To::kAbove | (payload ? payload : quiet));
}

// Any format to any other, on bits, so that nothing rounds twice and no signalling NaN passes through
// arithmetic.
template <class From, class To>
constexpr Converted<typename To::Bits> convert(typename From::Bits bits) {
  const uint64_t sign = uint64_t{bits} >> From::kSignShift;
  const uint64_t magnitude = bits & From::kMagnitude;
  if (From::is_nan(magnitude)) return {convert_nan<From, To>(sign, magnitude)};
  if (From::kHasInfinity && magnitude == From::kAbove)
    return {with_sign<To>(sign, To::kAbove), !To::kHasInfinity};
  if (magnitude == 0) return {with_sign<To>(sign, 0)};

  // value = significand * 2^exponent
  const int field = static_cast<int>(magnitude >> From::kMantissa);
  const uint64_t fraction = magnitude & From::kMantissaMask;
  const uint64_t significand = field ? fraction | uint64_t{1} << From::kMantissa : fraction;
  const int exponent = std::max(field, 1) - From::kBias - From::kMantissa;

  constexpr int kLowest = 1 - To::kBias;  // exponent of the smallest normal number
  const int leading = exponent + 63 - std::countl_zero(significand);
  const int binade = std::max(leading, kLowest);
  const int drop = binade - To::kMantissa - exponent;  // low bits of the significand that do not fit
  uint64_t kept = 0;
  bool rounded = true;
  if (drop <= 0) {
    kept = significand << -drop;
    rounded = false;
  } else if (drop < 63) {
    const uint64_t half = uint64_t{1} << (drop - 1);
    const uint64_t rest = significand & (2 * half - 1);
    kept = significand >> drop;
    kept += rest > half || (rest == half && (kept & 1));
    rounded = rest != 0;
  }
  // A significand that rounds up to the next power of two carries into the exponent by itself. The exponent
  // is clamped just above the target's range, so that the sum fits.
  const int steps = std::min(binade - kLowest, 2 * To::kBias + 1);
  const uint64_t result = (static_cast<uint64_t>(steps) << To::kMantissa) + kept;
  if (result >= To::kAbove) return {with_sign<To>(sign, To::kAbove), true, true};
  return {with_sign<To>(sign, result), rounded, false, result == 0};
}

template <class Bits>
Bits load(const std::byte* from) {
  Bits bits;
  std::memcpy(&bits, from, sizeof bits);
  return bits;
}

template <class Bits>
void store(std::byte* to, Bits bits) {
  std::memcpy(to, &bits, sizeof bits);
}

// All conversions of an 8-bit format, worked out beforehand.
template <class From, class To>
constexpr auto kTable = [] {
  std::array<Converted<typename To::Bits>, 256> table{};
  for (size_t code = 0; code < table.size(); ++code)
    table[code] = convert<From, To>(static_cast<typename From::Bits>(code));
  return table;
}();

template <class From, class To>
Converted<typename To::Bits> convert_one(typename From::Bits bits) {
  if constexpr (sizeof bits == 1) {
    return kTable<From, To>[bits];
  } else {
    return convert<From, To>(bits);
  }
}

template <class From, class To>
CastCounts convert_all(const std::byte* from, std::byte* to, size_t count) {
  CastCounts counts;
  for (size_t i = 0; i < count; ++i) {
    const auto made =
        convert_one<From, To>(load<typename From::Bits>(from + i * sizeof(typename From::Bits)));
    store(to + i * sizeof(typename To::Bits), made.bits);
    counts.overflowed += made.overflowed;
    counts.flushed += made.flushed;
    counts.rounded += made.rounded;
  }
  return counts;
}

// The two conversions that run over whole checkpoints: no branches, so that the compiler vectorises them.
template <>
CastCounts convert_all<Bf16, F32>(const std::byte* from, std::byte* to, size_t count) {
  for (size_t i = 0; i < count; ++i)
    store(to + 4 * i, static_cast<uint32_t>(load<uint16_t>(from + 2 * i)) << 16);
  return {};
}

template <>
CastCounts convert_all<F32, Bf16>(const std::byte* from, std::byte* to, size_t count) {
  constexpr size_t kBlock = 1 << 16;  // counts of a block fit in 32 bits
  CastCounts counts;
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t end = std::min(count, begin + kBlock);
    uint32_t rounded = 0, overflowed = 0, flushed = 0;
    for (size_t i = begin; i < end; ++i) {
      const uint32_t bits = load<uint32_t>(from + 4 * i);
      const uint32_t magnitude = bits & 0x7fffffff;
      const uint32_t is_nan = magnitude > 0x7f800000;
      const uint32_t nearest = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
      const uint32_t high = bits >> 16;
      const uint32_t nan = high | ((high & 0x7f) == 0 ? 0x40u : 0u);
      const uint32_t result = is_nan ? nan : nearest;
      const uint32_t result_magnitude = result & 0x7fff;
      store(to + 2 * i, static_cast<uint16_t>(result));
      rounded += static_cast<uint32_t>((bits & 0xffff) != 0) & (is_nan ^ 1);
      overflowed +=
          static_cast<uint32_t>(result_magnitude == 0x7f80) & static_cast<uint32_t>(magnitude < 0x7f800000);
      flushed += static_cast<uint32_t>(result_magnitude == 0) & static_cast<uint32_t>(magnitude != 0);
    }
    counts += {overflowed, flushed, rounded};
  }
  return counts;
}

using Kernel = CastCounts (*)(const std::byte* from, std::byte* to, size_t count);

template <class From>
Kernel kernel_to(DType to) {
  switch (to) {
    case DType::f64:
      return convert_all<From, F64>;
    case DType::f32:
      return convert_all<From, F32>;
    case DType::bf16:
      return convert_all<From, Bf16>;
    case DType::f16:
      return convert_all<From, F16>;
    case DType::f8_e4m3:
      return convert_all<From, F8E4M3>;
    case DType::f8_e5m2:
      return convert_all<From, F8E5M2>;
    default:
      return nullptr;
  }
}

Kernel kernel(DType from, DType to) {
  switch (from) {
    case DType::f64:
      return kernel_to<F64>(to);
    case DType::f32:
      return kernel_to<F32>(to);
    case DType::bf16:
      return kernel_to<Bf16>(to);
    case DType::f16:
      return kernel_to<F16>(to);
    case DType::f8_e4m3:
      return kernel_to<F8E4M3>(to);
    case DType::f8_e5m2:
      return kernel_to<F8E5M2>(to);
    default:
      return nullptr;
  }
}

template <class Match>
std::optional<DType> first(Match match) {
  for (const DTypeRow& r : kDTypes)
    if (match(r)) return r.dtype;
  return std::nullopt;
}

constexpr bool rows_in_order() {
  for (size_t i = 0; i < kDTypes.size(); ++i)
    if (kDTypes[i].dtype != static_cast<DType>(i)) return false;
  return true;
}
static_assert(rows_in_order(), "row() indexes kDTypes by the enumerator");

}  // namespace

std::optional<DType> dtype_named(std::string_view name) {
  return first([&](const DTypeRow& r) { return r.name == name || r.long_name == name; });
}
std::optional<DType> dtype_of_safetensors(std::string_view spelling) {
  return first([&](const DTypeRow& r) { return r.safetensors == spelling; });
}
std::optional<DType> dtype_of_tensorflow(int number) {
  return first([&](const DTypeRow& r) { return r.tensorflow == number; });
}

CastCounts& CastCounts::operator+=(const CastCounts& other) {
  overflowed += other.overflowed;
  flushed += other.flushed;
  rounded += other.rounded;
  return *this;
}

float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
float f16_to_f32(uint16_t bits) { return std::bit_cast<float>(convert<F16, F32>(bits).bits); }
float f8_e4m3_to_f32(uint8_t bits) { return std::bit_cast<float>(convert<F8E4M3, F32>(bits).bits); }
float f8_e5m2_to_f32(uint8_t bits) { return std::bit_cast<float>(convert<F8E5M2, F32>(bits).bits); }
uint16_t f32_to_bf16(float value) { return convert<F32, Bf16>(std::bit_cast<uint32_t>(value)).bits; }
uint16_t f32_to_f16(float value) { return convert<F32, F16>(std::bit_cast<uint32_t>(value)).bits; }
uint8_t f32_to_f8_e4m3(float value) { return convert<F32, F8E4M3>(std::bit_cast<uint32_t>(value)).bits; }
uint8_t f32_to_f8_e5m2(float value) { return convert<F32, F8E5M2>(std::bit_cast<uint32_t>(value)).bits; }

Result<CastCounts> cast(DType from_dtype, std::span<const std::byte> from, DType to_dtype,
                        std::span<std::byte> to) {
  assert(from.size() % size_of(from_dtype) == 0);
  const size_t count = from.size() / size_of(from_dtype);
  assert(to.size() == count * size_of(to_dtype));
  if (from_dtype == to_dtype) {
    if (count) std::memcpy(to.data(), from.data(), from.size());
    return CastCounts{};
  }
  const Kernel run = kernel(from_dtype, to_dtype);
  if (!run)
    return unsupported("cast_c1", "{} does not convert to {}: only float types convert", from_dtype,
                       to_dtype);
  return run(from.data(), to.data(), count);
}

}  // namespace tandem
