#include "formats/tensor_bundle/string_tensor.h"

#include "base/hash.h"
#include "formats/tensor_bundle/coding.h"

namespace tandem {
namespace {

uint32_t add_length(uint32_t crc, uint64_t length) {
  std::string fixed;
  if (length <= UINT32_MAX)
    put_fixed32(fixed, static_cast<uint32_t>(length));
  else
    put_fixed64(fixed, length);
  return crc32c(crc, as_bytes(fixed));
}

}  // namespace

EncodedStrings encode_strings(const std::vector<std::string_view>& strings) {
  EncodedStrings out;
  uint32_t crc = 0;
  for (const std::string_view text : strings) {
    put_varint(out.bytes, text.size());
    crc = add_length(crc, text.size());
  }
  std::string checksum;
  put_fixed32(checksum, mask_crc(crc));
  crc = crc32c(crc, as_bytes(checksum));
  out.bytes += checksum;
  for (const std::string_view text : strings) {
    out.bytes += text;
    crc = crc32c(crc, as_bytes(text));
  }
  out.masked_crc = mask_crc(crc);
  return out;
}

Result<std::vector<std::string>> decode_strings(std::string_view bytes, uint64_t count, uint32_t masked_crc) {
  if (count > bytes.size()) return corrupt("T5", "{} strings in {} bytes", count, bytes.size());
  std::vector<uint64_t> lengths;
  uint32_t crc = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const auto length = take_varint(bytes);
    if (!length) return corrupt("T5", "the length of string {} cannot be read", i);
    lengths.push_back(*length);
    crc = add_length(crc, *length);
  }
  const std::string_view checksum = bytes.substr(0, 4);
  const auto stored = take_fixed32(bytes);
  if (!stored || *stored != mask_crc(crc))
    return corrupt("T5", "the checksum of the string lengths does not match");
  crc = crc32c(crc, as_bytes(checksum));
  crc = crc32c(crc, as_bytes(bytes));
  if (mask_crc(crc) != masked_crc) return corrupt("T5", "the checksum of the strings does not match");
  std::vector<std::string> strings;
  for (const uint64_t length : lengths) {
    const auto text = take_bytes(bytes, length);
    if (!text) return corrupt("T5", "a string of {} bytes, {} are left", length, bytes.size());
    strings.emplace_back(*text);
  }
  if (!bytes.empty()) return corrupt("T5", "{} bytes follow the last string", bytes.size());
  return strings;
}

}  // namespace tandem
