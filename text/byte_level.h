#pragma once
// The byte alphabet of byte-level BPE: each of the 256 bytes as a character that can be printed. Bytes
// 33-126, 161-172 and 174-255 are the code points of the same number; the others, in order, are U+0100 and
// on. Source: GPT-2, encoder.py, bytes_to_unicode.

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::text {

const std::array<char32_t, 256>& byte_characters();
/// The bytes that a text in the byte alphabet spells; none if a character is outside it.
std::optional<std::string> bytes_spelled(std::string_view text);

}  // namespace tandem::text
