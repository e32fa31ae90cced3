#include "text/pre_tokenizer.h"

#include "text/byte_level.h"
#include "text/kinds.h"
#include "text/utf8.h"

namespace tandem::text {
namespace {

using Step = std::function<Status(Pieces&)>;

PreTokenizer one_step(Step step) { return {{std::move(step)}, false}; }

Step split_on(Pattern pattern, Behavior behavior, bool invert = false) {
  return [pattern = std::move(pattern), behavior, invert](Pieces& pieces) {
    std::vector<Span> matches;
    return split(pieces, behavior, [&](std::string_view text, std::vector<Part>& parts) -> Status {
      TANDEM_CHECK(pattern.find_all(text, matches));
      parts_of(matches, text.size(), parts);
      for (Part& part : parts) part.match = part.match != invert;
      return {};
    });
  };
}

Step split_where(bool (*holds)(char32_t), Behavior behavior) {
  return [holds, behavior](Pieces& pieces) -> Status {
    split_characters(pieces, behavior, holds);
    return {};
  };
}

struct NamedBehavior {
  std::string_view name;
  Behavior behavior;
};
constexpr NamedBehavior kBehaviors[] = {{"Removed", Behavior::removed},
                                        {"Isolated", Behavior::isolated},
                                        {"MergedWithPrevious", Behavior::merged_with_previous},
                                        {"MergedWithNext", Behavior::merged_with_next},
                                        {"Contiguous", Behavior::contiguous}};

Result<Behavior> behavior_of(Fields& fields, std::optional<std::string> fallback = {}) {
  TANDEM_TRY(const std::string name, fields.string("behavior", std::move(fallback)));
  for (const NamedBehavior& row : kBehaviors)
    if (row.name == name) return row.behavior;
  return fields.wrong(fmt::format("\"behavior\" is \"{}\"", name));
}

Status to_byte_alphabet(Pieces& pieces) {
  return pieces.rewrite([](Characters& text, uint32_t) -> Status {
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

/// A space before each piece that does not start with one.
Status prefix_space(Pieces& pieces) {
  return pieces.rewrite([](Characters& text, uint32_t) -> Status {
    if (!text.empty() && text.front().code != ' ') text.insert(text.begin(), {' ', text.front().from});
    return {};
  });
}

// Source: GPT-2, encoder.py.
constexpr std::string_view kWords =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

Result<PreTokenizer> make_byte_level(Fields& fields) {
  TANDEM_TRY(const bool add_prefix_space, fields.boolean("add_prefix_space"));
  TANDEM_TRY(const bool use_regex, fields.boolean("use_regex", true));
  TANDEM_CHECK(fields.boolean("trim_offsets", true));  // of the post-processor of the same name alone
  PreTokenizer made{{}, true};
  if (add_prefix_space) made.steps.push_back(prefix_space);
  if (use_regex) {
    TANDEM_TRY(Pattern words, Pattern::regex(kWords));
    made.steps.push_back(split_on(std::move(words), Behavior::isolated));
  }
  return made;
}

Result<PreTokenizer> make_split(Fields& fields) {
  TANDEM_TRY(Pattern pattern, pattern_of(fields));
  TANDEM_TRY(const Behavior behavior, behavior_of(fields));
  TANDEM_TRY(const bool invert, fields.boolean("invert"));
  return one_step(split_on(std::move(pattern), behavior, invert));
}

Result<PreTokenizer> make_digits(Fields& fields) {
  TANDEM_TRY(const bool individual, fields.boolean("individual_digits"));
  return one_step(split_where(is_number, individual ? Behavior::isolated : Behavior::contiguous));
}

Result<PreTokenizer> make_whitespace(Fields&) {
  // As the crate `regex` reads \w+|[^\w\s]+
  TANDEM_TRY(Pattern words,
             Pattern::pcre2(
                 R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200c}\x{200d}]+|)"
                 R"([^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200c}\x{200d}\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680})"
                 R"(\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]+)"));
  return one_step(split_on(std::move(words), Behavior::removed, true));
}

Result<PreTokenizer> make_whitespace_split(Fields&) {
  return one_step(split_where(is_white_space, Behavior::removed));
}

Result<PreTokenizer> make_punctuation(Fields& fields) {
  TANDEM_TRY(const Behavior behavior, behavior_of(fields, "Isolated"));
  return one_step(split_where(is_punctuation, behavior));
}

Result<PreTokenizer> make_bert(Fields&) {
  return PreTokenizer{
      {split_where(is_white_space, Behavior::removed), split_where(is_punctuation, Behavior::isolated)},
      false};
}

Result<PreTokenizer> make_metaspace(Fields& fields) {
  TANDEM_TRY(const Metaspace metaspace, metaspace_of(fields));
  std::string mark;
  append_utf8(mark, metaspace.replacement);
  PreTokenizer made = one_step([metaspace](Pieces& pieces) {
    return pieces.rewrite([&](Characters& text, uint32_t origin) -> Status {
      for (Character& character : text)
        if (character.code == ' ') character.code = metaspace.replacement;
      const bool wanted = metaspace.prepend == Metaspace::Prepend::always ||
                          (metaspace.prepend == Metaspace::Prepend::first && origin == 0);
      if (wanted && !text.empty() && text.front().code != metaspace.replacement)
        text.insert(text.begin(), {metaspace.replacement, text.front().from});
      return {};
    });
  });
  if (metaspace.split) made.steps.push_back(split_on(Pattern::literal(mark), Behavior::merged_with_next));
  return made;
}

Result<PreTokenizer> make_sequence(Fields& fields) {
  TANDEM_TRY(std::vector<PreTokenizer> all, make_each(fields, "pretokenizers", make_pre_tokenizer));
  PreTokenizer made;
  for (PreTokenizer& one : all) {
    if (made.to_bytes) made.steps.push_back(to_byte_alphabet);
    made.steps.insert(made.steps.end(), one.steps.begin(), one.steps.end());
    made.to_bytes = one.to_bytes;
  }
  return made;
}

constexpr Kind<PreTokenizer> kKinds[] = {
    {"BertPreTokenizer", make_bert},
    {"ByteLevel", make_byte_level},
    {"Digits", make_digits},
    {"Metaspace", make_metaspace},
    {"Punctuation", make_punctuation},
    {"Sequence", make_sequence},
    {"Split", make_split},
    {"Whitespace", make_whitespace},
    {"WhitespaceSplit", make_whitespace_split},
};

}  // namespace

Result<Metaspace> metaspace_of(Fields& fields) {
  Metaspace metaspace;
  TANDEM_TRY(metaspace.replacement, fields.character("replacement"));
  TANDEM_TRY(const std::string scheme, fields.string("prepend_scheme", "always"));
  TANDEM_TRY(const bool add_prefix_space, fields.boolean("add_prefix_space", true));  // of older files
  TANDEM_TRY(metaspace.split, fields.boolean("split", true));
  fields.ignore("str_rep");
  if (scheme == "first")
    metaspace.prepend = Metaspace::Prepend::first;
  else if (scheme == "never")
    metaspace.prepend = Metaspace::Prepend::never;
  else if (scheme != "always")
    return fields.wrong(fmt::format("\"prepend_scheme\" is \"{}\"", scheme));
  if (!add_prefix_space) metaspace.prepend = Metaspace::Prepend::never;
  return metaspace;
}

Status pre_tokenize(const PreTokenizer& pre_tokenizer, Pieces& pieces, bool bytes_stay) {
  for (const Step& step : pre_tokenizer.steps) TANDEM_CHECK(step(pieces));
  if (pre_tokenizer.to_bytes && !bytes_stay) TANDEM_CHECK(to_byte_alphabet(pieces));
  return {};
}

Result<PreTokenizer> make_pre_tokenizer(const Json& json, const std::string& place) {
  return make_kind<PreTokenizer>(kKinds, json, place);
}
std::vector<std::string_view> pre_tokenizer_types() { return types_of<PreTokenizer>(kKinds); }

}  // namespace tandem::text
