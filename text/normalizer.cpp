#include "text/normalizer.h"

#include <algorithm>

#include "text/byte_level.h"
#include "text/character_map.h"
#include "text/fields.h"
#include "text/kinds.h"
#include "text/pattern.h"
#include "text/utf8.h"

namespace tandem::text {
namespace {

template <class Keep>
void keep_if(Characters& text, Keep keep) {
  std::erase_if(text, [&](const Character& character) { return !keep(character.code); });
}

Normalizer form_of(NormalForm form) {
  return [form](Characters& text, uint32_t) { return normalize(form, text); };
}
Result<Normalizer> make_nfc(Fields&) { return form_of(NormalForm::nfc); }
Result<Normalizer> make_nfd(Fields&) { return form_of(NormalForm::nfd); }
Result<Normalizer> make_nfkc(Fields&) { return form_of(NormalForm::nfkc); }
Result<Normalizer> make_nfkd(Fields&) { return form_of(NormalForm::nfkd); }

Result<Normalizer> make_lowercase(Fields&) {
  return Normalizer([](Characters& text, uint32_t) -> Status {
    lowercase(text);
    return {};
  });
}

Result<Normalizer> make_strip_accents(Fields&) {
  return Normalizer([](Characters& text, uint32_t) -> Status {
    keep_if(text, [](char32_t code) { return !is_mark(code); });
    return {};
  });
}

// Source: BERT, tokenization.py: _clean_text, _tokenize_chinese_chars, _run_strip_accents.
void clean(Characters& text) {
  const auto is_blank = [](char32_t code) { return code == '\t' || code == '\n' || code == '\r'; };
  keep_if(text,
          [&](char32_t code) { return is_blank(code) || !(code == 0 || code == 0xfffd || is_other(code)); });
  for (Character& character : text)
    if (is_white_space(character.code)) character.code = ' ';
}

struct Block {
  char32_t first, last;
};
constexpr Block kIdeographs[] = {{0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df},
                                 {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf},
                                 {0xf900, 0xfaff},   {0x2f800, 0x2fa1f}};

bool is_ideograph(char32_t code) {
  if (code < 0x3400) return false;
  return std::any_of(std::begin(kIdeographs), std::end(kIdeographs),
                     [&](const Block& block) { return code >= block.first && code <= block.last; });
}

void space_ideographs(Characters& text) {
  const auto holds = [](const Character& character) { return is_ideograph(character.code); };
  if (std::none_of(text.begin(), text.end(), holds)) return;
  Characters spaced;
  spaced.reserve(text.size() * 3);
  for (const Character& character : text) {
    const bool alone = holds(character);
    if (alone) spaced.push_back({' ', character.from});
    spaced.push_back(character);
    if (alone) spaced.push_back({' ', character.from});
  }
  text = std::move(spaced);
}

Result<Normalizer> make_bert(Fields& fields) {
  TANDEM_TRY(const bool clean_text, fields.boolean("clean_text", true));
  TANDEM_TRY(const bool handle_chinese_chars, fields.boolean("handle_chinese_chars", true));
  TANDEM_TRY(const bool to_lowercase, fields.boolean("lowercase", true));
  TANDEM_TRY(const bool strip_accents, fields.boolean("strip_accents", to_lowercase));  // null: as lowercase
  return Normalizer([=](Characters& text, uint32_t) -> Status {
    if (clean_text) clean(text);
    if (handle_chinese_chars) space_ideographs(text);
    if (strip_accents) {
      TANDEM_CHECK(normalize(NormalForm::nfd, text));
      keep_if(text, [](char32_t code) { return !is_nonspacing_mark(code); });
    }
    if (to_lowercase) lowercase(text);
    return {};
  });
}

/// Each match makes way for `content`, which comes from the last character of the match.
Status replace(const Pattern& pattern, const Characters& content, Characters& text, uint32_t origin) {
  std::string bytes;
  std::vector<uint32_t> starts;  // of each character of the text, in bytes; and the end
  for (const Character& character : text) {
    starts.push_back(uint32_t(bytes.size()));
    append_utf8(bytes, character.code);
  }
  starts.push_back(uint32_t(bytes.size()));
  std::vector<Span> matches;
  TANDEM_CHECK(pattern.find_all(bytes, matches));
  if (matches.empty()) return {};
  const auto index_of = [&](uint32_t byte) {
    return size_t(std::lower_bound(starts.begin(), starts.end(), byte) - starts.begin());
  };
  Characters changed;
  size_t done = 0;
  for (const Span& match : matches) {
    const size_t begin = index_of(match.begin), end = index_of(match.end);
    changed.insert(changed.end(), text.begin() + done, text.begin() + begin);
    for (const Character& character : content)
      changed.push_back({character.code, end > 0 ? text[end - 1].from : Span{origin, origin}});
    done = end;
    TANDEM_CHECK(not_too_long(changed.size()));
  }
  changed.insert(changed.end(), text.begin() + done, text.end());
  text = std::move(changed);
  return {};
}

Characters characters_of(std::string_view text) {
  Characters characters;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    characters.push_back({point.code, {}});
    at += point.size;
  }
  return characters;
}

Result<Normalizer> make_replace(Fields& fields) {
  TANDEM_TRY(const Pattern pattern, pattern_of(fields));
  TANDEM_TRY(const std::string content, short_string(fields, "content"));
  return Normalizer([pattern, with = characters_of(content)](Characters& text, uint32_t origin) {
    return replace(pattern, with, text, origin);
  });
}

Result<Normalizer> make_prepend(Fields& fields) {
  TANDEM_TRY(const std::string prepend, short_string(fields, "prepend"));
  return Normalizer([before = characters_of(prepend)](Characters& text, uint32_t) -> Status {
    if (text.empty()) return {};
    const Span first = text.front().from;
    Characters longer = before;
    for (Character& character : longer) character.from = first;
    text.insert(text.begin(), longer.begin(), longer.end());
    return {};
  });
}

Result<Normalizer> make_strip(Fields& fields) {
  TANDEM_TRY(const bool left, fields.boolean("strip_left", true));
  TANDEM_TRY(const bool right, fields.boolean("strip_right", true));
  return Normalizer([left, right](Characters& text, uint32_t) -> Status {
    const auto is_text = [](const Character& character) { return !is_white_space(character.code); };
    if (right) text.erase(std::find_if(text.rbegin(), text.rend(), is_text).base(), text.end());
    if (left) text.erase(text.begin(), std::find_if(text.begin(), text.end(), is_text));
    return {};
  });
}

Result<Normalizer> make_byte_level(Fields&) {
  return Normalizer([](Characters& text, uint32_t) -> Status {
    Characters spelled;
    spelled.reserve(text.size());
    std::string bytes;
    for (const Character& character : text) {
      bytes.clear();
      append_utf8(bytes, character.code);
      for (const char byte : bytes)
        spelled.push_back({byte_characters()[static_cast<unsigned char>(byte)], character.from});
    }
    text = std::move(spelled);
    return {};
  });
}

/// `count` old characters make way for `content`: one by one; what is too many stands beside the last, and
/// what is left of the old goes with the last that was written, whatever that is: so does the library.
void map_characters(int count, std::string_view content, std::vector<Change>& changes) {
  const size_t before = changes.size();
  for (const Character& character : characters_of(content)) changes.push_back({character.code, 0});
  const int added = int(changes.size() - before) - count;
  for (int i = 0; i < added; ++i) changes[changes.size() - 1 - size_t(i)].change = 1;
  if (added < 0 && !changes.empty()) changes.back().change += added;
}

// Source: sentencepiece, normalizer.cc; by grapheme clusters as the `tokenizers` library does it.
Status map_text(const CharacterMap& map, Characters& text) {
  std::string bytes;
  for (const Character& character : text) append_utf8(bytes, character.code);
  std::vector<Change> changes;
  changes.reserve(text.size());
  uint32_t begin = 0;
  for (const uint32_t end : grapheme_ends(bytes)) {
    const std::string_view cluster = std::string_view(bytes).substr(begin, end - begin);
    begin = end;
    TANDEM_CHECK(not_too_long(changes.size()));
    const auto whole = cluster.size() < 6 ? map.find(cluster) : std::nullopt;
    if (whole) map_characters(int(count_characters(cluster)), *whole, changes);
    for (size_t at = 0; !whole && at < cluster.size();) {
      const CodePoint point = code_point_at(cluster, at);
      const auto one = map.find(cluster.substr(at, point.size));
      if (one)
        map_characters(1, *one, changes);
      else
        changes.push_back({point.code, 0});
      at += point.size;
    }
  }
  give_origins(changes, text);
  return {};
}

Result<Normalizer> make_precompiled(Fields& fields) {
  TANDEM_TRY(const std::string encoded, fields.string("precompiled_charsmap"));
  auto map = CharacterMap::parse(encoded);
  if (!map.ok()) return std::move(map).error();
  return Normalizer([shared = std::make_shared<CharacterMap>(std::move(map).value())](
                        Characters& text, uint32_t) { return map_text(*shared, text); });
}

Result<Normalizer> make_sequence(Fields& fields);

constexpr Kind<Normalizer> kKinds[] = {
    {"BertNormalizer", make_bert},
    {"ByteLevel", make_byte_level},
    {"Lowercase", make_lowercase},
    {"NFC", make_nfc},
    {"NFD", make_nfd},
    {"NFKC", make_nfkc},
    {"NFKD", make_nfkd},
    {"Precompiled", make_precompiled},
    {"Prepend", make_prepend},
    {"Replace", make_replace},
    {"Sequence", make_sequence},
    {"Strip", make_strip},
    {"StripAccents", make_strip_accents},
};

Result<Normalizer> make_sequence(Fields& fields) {
  TANDEM_TRY(std::vector<Normalizer> all, make_each(fields, "normalizers", make_normalizer));
  return Normalizer([all = std::move(all)](Characters& text, uint32_t origin) -> Status {
    for (const Normalizer& one : all) TANDEM_CHECK(one(text, origin));
    return {};
  });
}

}  // namespace

Result<Normalizer> make_normalizer(const Json& json, const std::string& place) {
  return make_kind<Normalizer>(kKinds, json, place);
}
std::vector<std::string_view> normalizer_types() { return types_of<Normalizer>(kKinds); }

}  // namespace tandem::text
