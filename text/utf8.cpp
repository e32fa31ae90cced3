#include "text/utf8.h"

#include <algorithm>

namespace tandem::text {
namespace {

struct Lead {
  int size;                       ///< bytes of the whole sequence; 0 where no sequence starts so
  unsigned char lowest, highest;  ///< of the second byte
};

// The Unicode Standard, table 3-7.
Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xc2) return {0, 0, 0};
  if (byte < 0xe0) return {2, 0x80, 0xbf};
  if (byte < 0xf0)
    return {3, static_cast<unsigned char>(byte == 0xe0 ? 0xa0 : 0x80),
            static_cast<unsigned char>(byte == 0xed ? 0x9f : 0xbf)};
  if (byte < 0xf5)
    return {4, static_cast<unsigned char>(byte == 0xf0 ? 0x90 : 0x80),
            static_cast<unsigned char>(byte == 0xf4 ? 0x8f : 0xbf)};
  return {0, 0, 0};
}

struct Sequence {
  size_t size;  ///< bytes of the character, or of the ill-formed part
  bool whole;
  bool cut;  ///< the bytes end before the character does
};

Sequence sequence_at(std::string_view bytes, size_t at) {
  const Lead lead = lead_of(static_cast<unsigned char>(bytes[at]));
  if (lead.size == 0) return {1, false, false};
  for (int i = 1; i < lead.size; ++i) {
    if (at + i == bytes.size()) return {size_t(i), false, true};
    const auto byte = static_cast<unsigned char>(bytes[at + i]);
    const bool fits = i == 1 ? byte >= lead.lowest && byte <= lead.highest : (byte & 0xc0) == 0x80;
    if (!fits) return {size_t(i), false, false};
  }
  return {size_t(lead.size), true, false};
}

}  // namespace

std::string valid_utf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (size_t at = 0; at < bytes.size();) {
    const Sequence sequence = sequence_at(bytes, at);
    text += sequence.whole ? bytes.substr(at, sequence.size) : std::string_view("\xef\xbf\xbd");
    at += sequence.size;
  }
  return text;
}

size_t complete_prefix(std::string_view bytes) {
  for (size_t back = 1; back <= std::min<size_t>(3, bytes.size()); ++back) {
    const size_t at = bytes.size() - back;
    if (!starts_character(bytes[at])) continue;
    return sequence_at(bytes, at).cut ? at : bytes.size();
  }
  return bytes.size();
}

CodePoint code_point_before(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && !starts_character(text[at])) --at;
  return code_point_at(text, at);
}

void append_utf8(std::string& text, char32_t code) {
  if (code < 0x80) {
    text += char(code);
  } else if (code < 0x800) {
    text += {char(0xc0 | code >> 6), char(0x80 | (code & 0x3f))};
  } else if (code < 0x10000) {
    text += {char(0xe0 | code >> 12), char(0x80 | (code >> 6 & 0x3f)), char(0x80 | (code & 0x3f))};
  } else {
    text += {char(0xf0 | code >> 18), char(0x80 | (code >> 12 & 0x3f)), char(0x80 | (code >> 6 & 0x3f)),
             char(0x80 | (code & 0x3f))};
  }
}

size_t count_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), starts_character);
}

}  // namespace tandem::text
