#pragma once
// The ways to compute CRC-32C, apart, so that a test can compare them. Use base/hash.h.

#include <cstdint>
#include <span>

namespace tandem {

uint32_t crc32c_by_table(uint32_t crc, std::span<const std::byte> bytes);
/// By the instruction, 8 bytes at once; only if processor_has_crc32c().
uint32_t crc32c_by_processor(uint32_t crc, std::span<const std::byte> bytes);
/// By products of polynomials, 256 bytes at once, where the processor multiplies vectors of them (AVX-512
/// with VPCLMULQDQ), and else by the instruction; only if processor_has_crc32c().
uint32_t crc32c_by_folding(uint32_t crc, std::span<const std::byte> bytes);
bool processor_has_crc32c();

/// x^exponent modulo Castagnoli's polynomial, bits reversed as in the checksum: bit 31 is x^0.
uint32_t crc32c_power(uint64_t exponent);

}  // namespace tandem
