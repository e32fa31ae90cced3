#include "text/byte_level.h"

#include "text/utf8.h"

namespace tandem::text {
namespace {

bool stands_for_itself(int byte) { return (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173); }

std::array<char32_t, 256> make_characters() {
  std::array<char32_t, 256> characters{};
  char32_t next = 256;
  for (int byte = 0; byte < 256; ++byte) characters[byte] = stands_for_itself(byte) ? char32_t(byte) : next++;
  return characters;
}

std::array<int, 512> make_bytes() {
  std::array<int, 512> bytes;
  bytes.fill(-1);
  for (int byte = 0; byte < 256; ++byte) bytes[byte_characters()[byte]] = byte;
  return bytes;
}

}  // namespace

const std::array<char32_t, 256>& byte_characters() {
  static const std::array<char32_t, 256> characters = make_characters();
  return characters;
}

std::optional<std::string> bytes_spelled(std::string_view text) {
  static const std::array<int, 512> bytes = make_bytes();
  std::string spelled;
  spelled.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    if (point.code >= bytes.size() || bytes[point.code] < 0) return std::nullopt;
    spelled += char(bytes[point.code]);
    at += point.size;
  }
  return spelled;
}

}  // namespace tandem::text
