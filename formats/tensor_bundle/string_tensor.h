#pragma once
// How a bundle stores string tensors: the lengths, a checksum of them, then the bytes.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem {

struct EncodedStrings {
  std::string bytes;
  uint32_t masked_crc =
      0;  ///< of the lengths as fixed32 (fixed64 above 4 GiB), the lengths' checksum, and the bytes
};
EncodedStrings encode_strings(const std::vector<std::string_view>& strings);

/// Errors: T5 for lengths that do not fit, or a checksum that does not match.
Result<std::vector<std::string>> decode_strings(std::string_view bytes, uint64_t count, uint32_t masked_crc);

}  // namespace tandem
