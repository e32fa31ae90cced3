#pragma once
// Text as Python's str sees it: UTF-8 counted in code points, with Unicode's own classes and case mappings.
// All text here is valid UTF-8; what comes from outside is checked before.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::chat {

/// True if the bytes are UTF-8 without surrogates.
bool is_utf8(std::string_view text);

size_t length(std::string_view text);  ///< in code points
/// The byte at which code point n begins, or the text's size.
size_t byte_of(std::string_view text, size_t n);
/// The code point at byte `at`, which goes on to the next.
char32_t next(std::string_view text, size_t& at);
void append(std::string& text, char32_t c);
/// One string a code point.
std::vector<std::string_view> characters(std::string_view text);

bool is_space(char32_t c);      ///< str.isspace
bool is_printable(char32_t c);  ///< str.isprintable: repr() writes the others as escapes
bool is_alphabetic(char32_t c);
bool is_digit(char32_t c);
bool is_cased(char32_t c);

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
/// The first code point in title case, the others in lower case.
std::string capitalize(std::string_view text);
/// str.title: the first letter of each run of letters in title case.
std::string title(std::string_view text);

/// Without leading or trailing white space, or code points of `characters_to_strip`.
std::string_view strip(std::string_view text, bool left = true, bool right = true);
std::string_view strip(std::string_view text, std::string_view characters_to_strip, bool left, bool right);

}  // namespace tandem::chat
