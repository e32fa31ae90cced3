#include "base/base64.h"

#include <array>
#include <cstdint>

namespace tandem {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr int8_t kNone = -1;

/// Character to digit, in either alphabet.
constexpr std::array<int8_t, 256> kValues = [] {
  std::array<int8_t, 256> values{};
  values.fill(kNone);
  for (size_t i = 0; i < kDigits.size(); ++i)
    values[static_cast<unsigned char>(kDigits[i])] = static_cast<int8_t>(i);
  values['-'] = 62;
  values['_'] = 63;
  return values;
}();

/// Characters of padding at the end: 0, 1 or 2.
size_t padding_of(std::string_view text) {
  if (text.ends_with("==")) return 2;
  return text.ends_with('=') ? 1 : 0;
}

}  // namespace

std::string to_base64(std::span<const std::byte> bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - at);
    uint32_t group = 0;
    for (size_t i = 0; i < 3; ++i)
      group = group << 8 | (i < count ? std::to_integer<uint32_t>(bytes[at + i]) : 0);
    for (size_t digit = 0; digit < 4; ++digit)
      text += digit <= count ? kDigits[group >> (18 - 6 * digit) & 63] : '=';
  }
  return text;
}

Result<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0)
    return corrupt("base64_c1", "{} characters of base64, expected a multiple of 4", text.size());
  const size_t padding = padding_of(text);
  text.remove_suffix(padding);
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 2);
  uint32_t group = 0;
  int bits = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const int8_t value = kValues[static_cast<unsigned char>(text[at])];
    if (value == kNone)
      return corrupt("base64_c1", "character {} of the text is 0x{:02x}, no digit of base64", at,
                     static_cast<unsigned char>(text[at]));
    group = (group << 6 | static_cast<uint32_t>(value)) & 0xffff;
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes += static_cast<char>(group >> bits & 0xff);
  }
  if ((group & ((1u << bits) - 1)) != 0)
    return corrupt("base64_c1", "the last digit of base64 has bits beyond the last byte");
  return bytes;
}

}  // namespace tandem
