#include "text/unicode.h"

#include <unicode/ubrk.h>
#include <unicode/uchar.h>
#include <unicode/unorm2.h>
#include <unicode/utext.h>

#include <algorithm>
#include <memory>
#include <optional>

namespace tandem::text {
namespace {

bool in_mask(char32_t code, uint32_t mask) { return (U_GET_GC_MASK(UChar32(code)) & mask) != 0; }

/// First assigned in a version of Unicode after `major`.
bool is_newer_than(int major, char32_t code) {
  if (code < 0x300) return false;
  UVersionInfo version;
  u_charAge(UChar32(code), version);
  return version[0] > major;
}

// The tables of the `tokenizers` library are older than ICU's: its normal forms and marks are those of
// Unicode 9, BERT's categories those of Unicode 8 (crates unicode-normalization-alignments and
// unicode_categories).
constexpr int kNormalForms = 9;
constexpr int kCategories = 8;

const UNormalizer2* normalizer_of(NormalForm form) {
  UErrorCode status = U_ZERO_ERROR;
  const bool compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
  return compatible ? unorm2_getNFKCInstance(&status) : unorm2_getNFCInstance(&status);
}

uint8_t combining_class(char32_t code) {
  const uint8_t ccc = code < 0x300 ? 0 : u_getCombiningClass(UChar32(code));
  return ccc != 0 && is_newer_than(kNormalForms, code) ? 0 : ccc;
}

/// Every character decomposed; runs of marks sorted by their combining class.
Result<std::vector<Change>> decomposed(const UNormalizer2* normalizer, const Characters& text) {
  std::vector<Change> changes;
  changes.reserve(text.size());
  for (const Character& character : text) {
    UChar units[64];
    UErrorCode status = U_ZERO_ERROR;
    const int32_t length =
        character.code < 0xa0
            ? -1
            : unorm2_getDecomposition(normalizer, UChar32(character.code), units, 64, &status);
    if (length < 0 || U_FAILURE(status) || is_newer_than(kNormalForms, character.code)) {
      changes.push_back({character.code, 0});
      continue;
    }
    TANDEM_CHECK(not_too_long(changes.size()));
    for (int32_t i = 0; i < length;) {
      const int change = i > 0;
      UChar32 code;
      U16_NEXT(units, i, length, code);
      changes.push_back({char32_t(code), change});
    }
  }
  const auto is_starter = [](const Change& change) { return combining_class(change.code) == 0; };
  for (auto begin = changes.begin(); begin != changes.end();) {
    const auto end = std::find_if(begin, changes.end(), is_starter);
    if (end - begin > 1)
      std::stable_sort(begin, end, [](const Change& a, const Change& b) {
        return combining_class(a.code) < combining_class(b.code);
      });
    begin = end == changes.end() ? end : end + 1;
  }
  return changes;
}

/// Canonical composition (UAX #15): a mark joins the starter before it unless one between them blocks it.
std::vector<Change> composed(const UNormalizer2* normalizer, const std::vector<Change>& changes) {
  std::vector<Change> out;
  out.reserve(changes.size());
  std::optional<size_t> starter;  // its place in out
  int last_class = -1;            // of the last character kept after the starter; -1 if none
  for (const Change& change : changes) {
    const int ccc = combining_class(change.code);
    if (starter && last_class < ccc) {
      const UChar32 pair = unorm2_composePair(normalizer, UChar32(out[*starter].code), UChar32(change.code));
      if (pair >= 0 && !is_newer_than(kNormalForms, char32_t(pair))) {
        out[*starter] = {char32_t(pair), out[*starter].change + change.change - 1};
        continue;
      }
    }
    if (ccc == 0) {
      starter = out.size();
      last_class = -1;
    } else {
      last_class = ccc;
    }
    out.push_back(change);
  }
  return out;
}

}  // namespace

Status not_too_long(size_t characters) {
  if (characters <= kMaxTextCharacters) return {};
  return invalid("tokenizer_c6", "a normalizer makes the text longer than {} characters", kMaxTextCharacters);
}

void give_origins(const std::vector<Change>& changes, Characters& text) {
  Characters changed;
  changed.reserve(changes.size());
  size_t next = 0;
  for (const Change& change : changes) {
    const size_t at = change.change > 0 ? next - 1 : next;
    const Span from = at < text.size() ? text[at].from : Span{};
    changed.push_back({change.code, from});
    if (change.change <= 0) next += size_t(1 - change.change);
  }
  text = std::move(changed);
}

bool is_white_space(char32_t code) {
  if (code < 0x80) return code == ' ' || (code >= 9 && code <= 13);
  return u_isUWhiteSpace(UChar32(code));
}
bool is_number(char32_t code) {
  if (code < 0x80) return code >= '0' && code <= '9';
  return in_mask(code, U_GC_N_MASK);
}
bool is_punctuation(char32_t code) {
  if (code < 0x80)
    return (code >= '!' && code <= '/') || (code >= ':' && code <= '@') || (code >= '[' && code <= '`') ||
           (code >= '{' && code <= '~');
  if (code == 0x166d || code == 0x111c9) return true;  // in Unicode 8
  return in_mask(code, U_GC_P_MASK) && !is_newer_than(kCategories, code);
}
bool is_mark(char32_t code) {
  if (code == 0x1cf2 || code == 0x1cf3) return true;  // in Unicode 9
  if (code == 0x111c9) return false;
  return code >= 0x300 && in_mask(code, U_GC_M_MASK) && !is_newer_than(kNormalForms, code);
}
bool is_nonspacing_mark(char32_t code) {
  if (code == 0x1734) return true;  // in Unicode 8
  if (code == 0x1885 || code == 0x1886 || code == 0x111c9) return false;
  return code >= 0x300 && in_mask(code, U_GC_MN_MASK) && !is_newer_than(kCategories, code);
}
bool is_other(char32_t code) {
  if (code < 0x80) return code < 0x20 || code == 0x7f;
  return in_mask(code, U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CS_MASK | U_GC_CO_MASK) &&
         !is_newer_than(kCategories, code);
}
bool is_word(char32_t code) {
  return u_isUAlphabetic(UChar32(code)) || in_mask(code, U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK) ||
         code == 0x200c || code == 0x200d;
}

Status normalize(NormalForm form, Characters& text) {
  const bool ascii = std::all_of(text.begin(), text.end(), [](const Character& c) { return c.code < 0x80; });
  if (ascii) return {};
  const UNormalizer2* normalizer = normalizer_of(form);
  TANDEM_TRY(std::vector<Change> changes, decomposed(normalizer, text));
  if (form == NormalForm::nfc || form == NormalForm::nfkc) changes = composed(normalizer, changes);
  give_origins(changes, text);
  return {};
}

void lowercase(Characters& text) {
  constexpr char32_t kDottedI = 0x130;  // the one character whose lower case, whatever the language, is two
  size_t dotted = 0;
  for (Character& character : text) {
    if (character.code == kDottedI)
      ++dotted;
    else if (character.code < 0x80)
      character.code += character.code >= 'A' && character.code <= 'Z' ? 32 : 0;
    else
      character.code = char32_t(u_tolower(UChar32(character.code)));
  }
  if (dotted == 0) return;
  Characters longer;
  longer.reserve(text.size() + dotted);
  for (const Character& character : text) {
    longer.push_back({character.code == kDottedI ? 'i' : character.code, character.from});
    if (character.code == kDottedI) longer.push_back({0x307, character.from});
  }
  text = std::move(longer);
}

std::vector<uint32_t> grapheme_ends(std::string_view text) {
  UErrorCode status = U_ZERO_ERROR;
  thread_local const std::unique_ptr<UBreakIterator, decltype(&ubrk_close)> graphemes(
      ubrk_open(UBRK_CHARACTER, "", nullptr, 0, &status), &ubrk_close);
  UText* bytes = utext_openUTF8(nullptr, text.data(), int64_t(text.size()), &status);
  ubrk_setUText(graphemes.get(), bytes, &status);
  std::vector<uint32_t> ends;
  ubrk_first(graphemes.get());
  for (int32_t end = ubrk_next(graphemes.get()); end != UBRK_DONE; end = ubrk_next(graphemes.get()))
    ends.push_back(uint32_t(end));
  utext_close(bytes);
  return ends;
}

}  // namespace tandem::text
