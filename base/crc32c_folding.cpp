// CRC-32C by folding, after Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
// Instruction" (Intel, 2009): 128 bits, times what the bits between do to them, are added to 128 bits further
// on, which leaves the checksum as it is.
#include <cstring>

#include "base/hash_internal.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "base/crc32c_folding.cpp"
#include <hwy/foreach_target.h>  // compiles this file once for each set of instructions
#include <hwy/highway.h>

#ifndef TANDEM_CRC32C_FOLDED
#define TANDEM_CRC32C_FOLDED
namespace tandem {
/// Bytes that all others are folded into, at most.
constexpr size_t kFolded = 256;
}  // namespace tandem
#endif

HWY_BEFORE_NAMESPACE();
namespace tandem::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Folds bytes from the front, with `state` before them, into `folded`, whose checksum after no state is that
/// of what was taken. As many as were taken, a multiple of `*kept`, the bytes in `folded`; or none.
size_t Fold(uint32_t state, const uint8_t* bytes, size_t count, uint8_t* folded, size_t* kept) {
  // Only where a vector is multiplied in a cycle: elsewhere the instruction is as fast.
#if HWY_TARGET <= HWY_AVX3_DL
  const hn::ScalableTag<uint64_t> d;
  const hn::Repartition<uint8_t, decltype(d)> d8;
  const size_t vector = hn::Lanes(d8), step = 4 * vector;
  static_assert(4 * hn::MaxLanes(d8) <= kFolded);
  if (count < 2 * step) return 0;
  // 128 bits are L x^64 + U, L being their lower half. A product of halves has x as a factor: bits are
  // reversed.
  static const uint64_t kFactors[] = {uint64_t{crc32c_power(8 * step + 63)} << 32,
                                      uint64_t{crc32c_power(8 * step - 1)} << 32};
  const auto factors = hn::LoadDup128(d, kFactors);
  const auto load = [&](const uint8_t* at) { return hn::BitCast(d, hn::LoadU(d8, at)); };
  const auto next = [&](auto last, const uint8_t* at) {
    const auto moved = hn::Xor(hn::CLMulLower(last, factors), hn::CLMulUpper(last, factors));
    return hn::Xor(moved, load(at));
  };
  std::memcpy(folded, bytes, vector);
  uint32_t first;
  std::memcpy(&first, bytes, sizeof first);
  first ^= state;
  std::memcpy(folded, &first, sizeof first);
  auto v0 = load(folded), v1 = load(bytes + vector), v2 = load(bytes + 2 * vector),
       v3 = load(bytes + 3 * vector);
  size_t at = step;
  for (; count - at >= step; at += step) {
    v0 = next(v0, bytes + at);
    v1 = next(v1, bytes + at + vector);
    v2 = next(v2, bytes + at + 2 * vector);
    v3 = next(v3, bytes + at + 3 * vector);
  }
  hn::StoreU(hn::BitCast(d8, v0), d8, folded);
  hn::StoreU(hn::BitCast(d8, v1), d8, folded + vector);
  hn::StoreU(hn::BitCast(d8, v2), d8, folded + 2 * vector);
  hn::StoreU(hn::BitCast(d8, v3), d8, folded + 3 * vector);
  *kept = step;
  return at;
#else
  (void)state, (void)bytes, (void)count, (void)folded, (void)kept;
  return 0;
#endif
}

}  // namespace tandem::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem {

HWY_EXPORT(Fold);

uint32_t crc32c_by_folding(uint32_t crc, std::span<const std::byte> bytes) {
  uint8_t folded[kFolded];
  size_t kept = 0;
  const size_t taken = HWY_DYNAMIC_DISPATCH(Fold)(~crc, reinterpret_cast<const uint8_t*>(bytes.data()),
                                                  bytes.size(), folded, &kept);
  if (taken > 0) crc = crc32c_by_processor(~0u, std::as_bytes(std::span(folded, kept)));
  return crc32c_by_processor(crc, bytes.subspan(taken));
}

}  // namespace tandem
#endif
