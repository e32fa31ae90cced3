#pragma once
// Properties of code points (ICU's Unicode data), as the kinds of a tokenizer.json mean them.

#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/span.h"

namespace tandem::text {

bool is_white_space(char32_t code);      ///< property White_Space
bool is_number(char32_t code);           ///< categories Nd, Nl, No
bool is_punctuation(char32_t code);      ///< ASCII punctuation (symbols too), and categories P*
bool is_mark(char32_t code);             ///< categories M*
bool is_nonspacing_mark(char32_t code);  ///< category Mn
bool is_other(char32_t code);            ///< categories Cc, Cf, Cs, Co
bool is_word(char32_t code);             ///< \w of UTS #18: Alphabetic, M*, Nd, Pc, Join_Control

/// A character of a text that was changed, and where it comes from.
struct Character {
  char32_t code = 0;
  Span from;  ///< bytes of the original
};
using Characters = std::vector<Character>;

/// How a new character takes its place: 0 in place of the next old one, 1 beside the one before, -n in place
/// of the next and n more after it.
struct Change {
  char32_t code = 0;
  int change = 0;
};
/// Makes the new characters the text, each with the origin that its change gives it.
void give_origins(const std::vector<Change>& changes, Characters& text);

constexpr size_t kMaxTextCharacters = size_t(1) << 28;  ///< that a normalizer may leave
/// tokenizer_c6 for more than that.
Status not_too_long(size_t characters);

enum class NormalForm { nfc, nfd, nfkc, nfkd };
/// The normal form. A character that comes of several keeps the origin of the first; those that come of one
/// all keep its origin; reordered marks take the origins of their new places.
/// Errors: tokenizer_c6.
Status normalize(NormalForm form, Characters& text);
/// Each character's lower case by itself, whatever stands beside it.
void lowercase(Characters& text);
/// The ends of the extended grapheme clusters of valid UTF-8, in bytes.
std::vector<uint32_t> grapheme_ends(std::string_view text);

}  // namespace tandem::text
