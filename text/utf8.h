#pragma once
// UTF-8: bytes to code points and back.

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::text {

/// The same bytes, each ill-formed part replaced by U+FFFD: one for a maximal part of a well-formed sequence,
/// as the Unicode Standard (section 3.9, "Substitution of Maximal Subparts") and Python's errors="replace"
/// do.
std::string valid_utf8(std::string_view bytes);
/// The length of the longest prefix that ends with a whole character: what is left may still become one.
/// Bytes that can never become a character count as whole.
size_t complete_prefix(std::string_view bytes);

struct CodePoint {
  char32_t code = 0;
  uint32_t size = 0;  ///< bytes
};
/// The code point at `at` of valid UTF-8.
inline CodePoint code_point_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1};
  if (first < 0xe0) return {char32_t((first & 0x1f) << 6 | (byte(1) & 0x3f)), 2};
  if (first < 0xf0) return {char32_t((first & 0xf) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f)), 3};
  return {char32_t((first & 7) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 | (byte(3) & 0x3f)), 4};
}
/// Whether a character starts at this byte.
inline bool starts_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }
/// The code point that ends before `end` > 0 of valid UTF-8.
CodePoint code_point_before(std::string_view text, size_t end);
void append_utf8(std::string& text, char32_t code);
size_t count_characters(std::string_view text);

}  // namespace tandem::text
