#pragma once
// Checksums: SHA-256 (OpenSSL), CRC-32C (by SSE4.2, or AVX-512's VPCLMULQDQ, where the processor has them),
// and a seed from a name.

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tandem {

using Sha256Digest = std::array<std::byte, 32>;
std::string hex(const Sha256Digest& digest);  ///< 64 lower-case digits

/// SHA-256 over bytes that arrive in pieces.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  void update(std::span<const std::byte> bytes);
  Sha256Digest digest();  ///< ends the computation
  std::string hex() { return tandem::hex(digest()); }

 private:
  struct State;
  std::unique_ptr<State> state_;
};
Sha256Digest sha256(std::span<const std::byte> bytes);
inline std::string sha256_hex(std::span<const std::byte> bytes) { return hex(sha256(bytes)); }

/// CRC-32C (Castagnoli) of bytes, continued from the crc of what came before (0 at the start).
uint32_t crc32c(uint32_t crc, std::span<const std::byte> bytes);
/// The crc of two texts in a row, from the crcs of both and the second one's length.
uint32_t crc32c_combine(uint32_t first, uint32_t second, uint64_t second_bytes);
/// TensorFlow's and leveldb's masking: rotate right by 15, add 0xa282ead8.
uint32_t mask_crc(uint32_t crc);
uint32_t unmask_crc(uint32_t masked);

/// A 64-bit hash of a name (FNV-1a), stable for ever: seeds of tiny models hang on it.
uint64_t name_hash(std::string_view name);

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace tandem
