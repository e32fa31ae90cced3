#pragma once
// The two ways to compute CRC-32C, apart, so that a test can compare them. Use base/hash.h.

#include <cstdint>
#include <span>

namespace tandem {

uint32_t crc32c_by_table(uint32_t crc, std::span<const std::byte> bytes);
uint32_t crc32c_by_processor(uint32_t crc,
                             std::span<const std::byte> bytes);  ///< only if processor_has_crc32c()
bool processor_has_crc32c();

}  // namespace tandem
