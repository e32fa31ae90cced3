#include "formats/tensor_bundle/coding.h"

#include <fmt/format.h>

namespace tandem {

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 128; value >>= 7) out.push_back(static_cast<char>((value & 127) | 128));
  out.push_back(static_cast<char>(value));
}

void put_fixed32(std::string& out, uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<char>(value >> shift));
}

void put_fixed64(std::string& out, uint64_t value) {
  put_fixed32(out, static_cast<uint32_t>(value));
  put_fixed32(out, static_cast<uint32_t>(value >> 32));
}

std::optional<uint64_t> take_varint(std::string_view& in) {
  uint64_t value = 0;
  for (size_t i = 0; i < in.size() && i < 10; ++i) {
    const auto byte = static_cast<uint8_t>(in[i]);
    if (i == 9 && byte > 1) return std::nullopt;  // more than 64 bits
    value |= static_cast<uint64_t>(byte & 127) << (7 * i);
    if (byte < 128) {
      in.remove_prefix(i + 1);
      return value;
    }
  }
  return std::nullopt;
}

std::optional<uint32_t> take_fixed32(std::string_view& in) {
  const auto bytes = take_bytes(in, 4);
  if (!bytes) return std::nullopt;
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value |= static_cast<uint32_t>(static_cast<uint8_t>((*bytes)[i])) << (8 * i);
  return value;
}

std::optional<std::string_view> take_bytes(std::string_view& in, uint64_t count) {
  if (count > in.size()) return std::nullopt;
  const std::string_view taken = in.substr(0, count);
  in.remove_prefix(count);
  return taken;
}

std::string printable(std::string_view key) {
  constexpr size_t kLongest = 200;
  std::string text;
  for (const char c : key.substr(0, kLongest)) {
    if (c >= ' ' && c <= '~')
      text.push_back(c);
    else
      text += fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
  }
  return key.size() > kLongest ? text + "..." : text;
}

}  // namespace tandem
