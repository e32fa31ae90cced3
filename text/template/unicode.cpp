#include "text/template/unicode.h"

#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>

namespace tandem::chat {
namespace {

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

icu::UnicodeString wide(std::string_view text) {
  return icu::UnicodeString::fromUTF8({text.data(), static_cast<int32_t>(text.size())});
}

std::string narrow(const icu::UnicodeString& text) {
  std::string out;
  return text.toUTF8String(out);
}

std::string title_case(char32_t c) {
  if (c < 0x80)
    return std::string(1, c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : static_cast<char>(c));
  icu::UnicodeString one(static_cast<UChar32>(c));
  return narrow(one.toTitle(nullptr, icu::Locale::getRoot(), U_TITLECASE_NO_BREAK_ADJUSTMENT));
}

template <class Stripped>
std::string_view strip_if(std::string_view text, bool left, bool right, const Stripped& stripped) {
  size_t from = 0, to = text.size();
  while (left && from < to) {
    size_t after = from;
    if (!stripped(next(text, after))) break;
    from = after;
  }
  while (right && from < to) {
    size_t before = to - 1;
    while (before > from && continues(text[before])) --before;
    size_t at = before;
    if (!stripped(next(text, at))) break;
    to = before;
  }
  return text.substr(from, to - from);
}

}  // namespace

bool is_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const size_t size = byte < 0x80                   ? 1
                        : byte >= 0xC2 && byte < 0xE0 ? 2
                        : byte < 0xF0                 ? 3
                        : byte < 0xF5                 ? 4
                                                      : 0;
    if (size == 0 || (byte >= 0x80 && byte < 0xC2) || text.size() - at < size) return false;
    for (size_t i = 1; i < size; ++i)
      if (!continues(text[at + i])) return false;
    size_t begin = at;
    const char32_t c = next(text, begin);
    constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (c < kSmallest[size] || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) return false;
    at += size;
  }
  return true;
}

size_t length(std::string_view text) {
  return text.size() - static_cast<size_t>(std::count_if(text.begin(), text.end(), continues));
}

size_t byte_of(std::string_view text, size_t n) {
  size_t at = 0;
  for (; n > 0 && at < text.size(); --n) {
    ++at;
    while (at < text.size() && continues(text[at])) ++at;
  }
  return at;
}

char32_t next(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[at + i])); };
  const char32_t first = byte(0);
  const size_t size = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  constexpr char32_t kMask[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
  char32_t c = first & kMask[size];
  for (size_t i = 1; i < size && at + i < text.size(); ++i) c = c << 6 | (byte(i) & 0x3F);
  at = std::min(at + size, text.size());
  return c;
}

void append(std::string& text, char32_t c) {
  const auto put = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> all;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    next(text, at);
    all.push_back(text.substr(begin, at - begin));
  }
  return all;
}

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_printable(char32_t c) {
  if (c < 0x7F) return c >= 0x20;
  constexpr uint32_t kHidden = U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CS_MASK | U_GC_CO_MASK | U_GC_CN_MASK |
                               U_GC_ZL_MASK | U_GC_ZP_MASK | U_GC_ZS_MASK;
  return (U_GET_GC_MASK(static_cast<UChar32>(c)) & kHidden) == 0;
}

bool is_alphabetic(char32_t c) { return (U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_L_MASK) != 0; }

bool is_digit(char32_t c) {
  const int type = u_getIntPropertyValue(static_cast<UChar32>(c), UCHAR_NUMERIC_TYPE);
  return type == U_NT_DECIMAL || type == U_NT_DIGIT;
}

bool is_cased(char32_t c) {
  if (c < 0x80) return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_CASED);
}

std::string to_upper(std::string_view text) {
  if (!is_ascii(text)) return narrow(wide(text).toUpper(icu::Locale::getRoot()));
  std::string out(text);
  for (char& c : out)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
  return out;
}

std::string to_lower(std::string_view text) {
  if (!is_ascii(text)) return narrow(wide(text).toLower(icu::Locale::getRoot()));
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return out;
}

std::string capitalize(std::string_view text) {
  if (text.empty()) return {};
  size_t at = 0;
  const char32_t first = next(text, at);
  // In lower case as part of the whole: a final sigma depends on what stands before it.
  const std::string lower = to_lower(text);
  size_t rest = 0;
  next(lower, rest);
  return title_case(first) + lower.substr(rest);
}

std::string title(std::string_view text) {
  std::string out;
  bool after_letter = false;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = next(text, at);
    out += after_letter ? to_lower(text.substr(begin, at - begin)) : title_case(c);
    after_letter = is_cased(c);
  }
  return out;
}

std::string_view strip(std::string_view text, bool left, bool right) {
  return strip_if(text, left, right, is_space);
}

std::string_view strip(std::string_view text, std::string_view characters_to_strip, bool left, bool right) {
  std::vector<char32_t> set;
  for (size_t at = 0; at < characters_to_strip.size();) set.push_back(next(characters_to_strip, at));
  std::sort(set.begin(), set.end());
  return strip_if(text, left, right,
                  [&](char32_t c) { return std::binary_search(set.begin(), set.end(), c); });
}

}  // namespace tandem::chat
