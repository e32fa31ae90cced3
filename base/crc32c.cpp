#include <nmmintrin.h>

#include <array>
#include <bit>
#include <cstring>

#include "base/hash.h"
#include "base/hash_internal.h"

namespace tandem {

namespace {

constexpr std::array<uint32_t, 256> kCrcTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
    table[byte] = crc;
  }
  return table;
}();

}  // namespace

uint32_t crc32c_by_table(uint32_t crc, std::span<const std::byte> bytes) {
  crc = ~crc;
  for (std::byte byte : bytes) crc = crc >> 8 ^ kCrcTable[(crc ^ std::to_integer<uint32_t>(byte)) & 0xff];
  return ~crc;
}

namespace {

// Polynomials over GF(2) modulo Castagnoli's, bits reversed as in the checksum: bit 31 is x^0.
constexpr uint32_t multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (; a != 0; a <<= 1) {
    if (a & 0x80000000u) product ^= b;
    b = b & 1 ? b >> 1 ^ 0x82f63b78u : b >> 1;
  }
  return product;
}

// x^1, x^2, x^4, x^8, ...
constexpr std::array<uint32_t, 64> kSquares = [] {
  std::array<uint32_t, 64> squares{};
  uint32_t power = 0x40000000u;
  for (uint32_t& square : squares) {
    square = power;
    power = multiply(power, power);
  }
  return squares;
}();

// What that many bytes behind them do to a state.
uint32_t shift_of(uint64_t bytes) { return crc32c_power(8 * bytes); }

uint64_t word_at(const std::byte* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

}  // namespace

uint32_t crc32c_power(uint64_t exponent) {
  uint32_t power = 0x80000000u;
  for (; exponent != 0; exponent &= exponent - 1)
    power = multiply(kSquares[static_cast<size_t>(std::countr_zero(exponent))], power);
  return power;
}

uint32_t crc32c_combine(uint32_t first, uint32_t second, uint64_t second_bytes) {
  return multiply(shift_of(second_bytes), first) ^ second;
}

// The instruction gives a result every cycle, three cycles later: so three lanes at once.
__attribute__((target("sse4.2"))) uint32_t crc32c_by_processor(uint32_t crc,
                                                               std::span<const std::byte> bytes) {
  constexpr size_t kLane = 8192;
  static const uint32_t kShift = shift_of(kLane);
  uint64_t state = ~crc;
  for (; bytes.size() >= 3 * kLane; bytes = bytes.subspan(3 * kLane)) {
    uint64_t second = 0, third = 0;
    for (size_t i = 0; i < kLane; i += 8) {
      state = _mm_crc32_u64(state, word_at(bytes.data() + i));
      second = _mm_crc32_u64(second, word_at(bytes.data() + kLane + i));
      third = _mm_crc32_u64(third, word_at(bytes.data() + 2 * kLane + i));
    }
    const uint32_t two = multiply(static_cast<uint32_t>(state), kShift) ^ static_cast<uint32_t>(second);
    state = multiply(two, kShift) ^ static_cast<uint32_t>(third);
  }
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) state = _mm_crc32_u64(state, word_at(bytes.data()));
  uint32_t rest = static_cast<uint32_t>(state);
  for (std::byte byte : bytes) rest = _mm_crc32_u8(rest, std::to_integer<uint8_t>(byte));
  return ~rest;
}

bool processor_has_crc32c() { return __builtin_cpu_supports("sse4.2"); }

uint32_t crc32c(uint32_t crc, std::span<const std::byte> bytes) {
  static const bool kFast = processor_has_crc32c();
  return kFast ? crc32c_by_folding(crc, bytes) : crc32c_by_table(crc, bytes);
}

constexpr uint32_t kMaskDelta = 0xa282ead8;
uint32_t mask_crc(uint32_t crc) { return std::rotr(crc, 15) + kMaskDelta; }
uint32_t unmask_crc(uint32_t masked) { return std::rotl(masked - kMaskDelta, 15); }

}  // namespace tandem
