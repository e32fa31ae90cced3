#include "text/post_processor.h"

#include <algorithm>

#include "text/byte_level.h"
#include "text/kinds.h"
#include "text/model.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace tandem::text {
namespace {

struct Token {
  uint32_t id = 0;
  std::string words;
};

Result<uint32_t> id_from(const Fields& fields, const Json& json) {
  if (!json.is_number_unsigned() || json.get<uint64_t>() > kMaxTokenId)
    return fields.wrong("an id is no whole number in range");
  return json.get<uint32_t>();
}

void append(Encoding& encoding, const Token& token) {
  encoding.ids.push_back(token.id);
  encoding.pieces.push_back(token.words);
  encoding.offsets.push_back({});
  encoding.special.push_back(true);
}

void append(Encoding& encoding, const Encoding& more) {
  encoding.ids.insert(encoding.ids.end(), more.ids.begin(), more.ids.end());
  encoding.pieces.insert(encoding.pieces.end(), more.pieces.begin(), more.pieces.end());
  encoding.offsets.insert(encoding.offsets.end(), more.offsets.begin(), more.offsets.end());
  encoding.special.insert(encoding.special.end(), more.special.begin(), more.special.end());
}

/// The text between tokens. Lists that nobody asked for stay empty.
void surround(Encoding& encoding, const std::vector<Token>& before, const std::vector<Token>& after) {
  const bool detailed = encoding.pieces.size() == encoding.ids.size();
  Encoding all;
  for (const Token& token : before) append(all, token);
  append(all, encoding);
  for (const Token& token : after) append(all, token);
  encoding.ids = std::move(all.ids);
  if (!detailed) return;
  encoding.pieces = std::move(all.pieces);
  encoding.offsets = std::move(all.offsets);
  encoding.special = std::move(all.special);
}

bool is_space(char32_t code) { return code == byte_characters()[' '] || is_white_space(code); }

uint32_t spaces_before(std::string_view piece) {
  uint32_t count = 0;
  for (size_t at = 0; at < piece.size(); ++count) {
    const CodePoint point = code_point_at(piece, at);
    if (!is_space(point.code)) break;
    at += point.size;
  }
  return count;
}

uint32_t spaces_after(std::string_view piece) {
  uint32_t count = 0;
  for (size_t end = piece.size(); end > 0; ++count) {
    const CodePoint point = code_point_before(piece, end);
    if (!is_space(point.code)) break;
    end -= point.size;
  }
  return count;
}

/// Leaves the spaces that a piece starts or ends with out of its offsets. One space at the start of the text
/// may be one that was added there: it stays.
void trim_offsets(Encoding& encoding, bool add_prefix_space) {
  for (size_t i = 0; i < encoding.offsets.size(); ++i) {
    Span& at = encoding.offsets[i];
    uint32_t before = spaces_before(encoding.pieces[i]);
    const uint32_t after = spaces_after(encoding.pieces[i]);
    const bool first = i == 0 || at.begin == 0;
    if (first && add_prefix_space && before == 1) before = 0;
    if (before > 0) at.begin = std::min(at.begin + before, at.end);
    if (after > 0 && at.end >= after) at.end = std::max(at.end - after, at.begin);
  }
}

std::function<void(Encoding&, bool)> trimming(bool add_prefix_space) {
  return [add_prefix_space](Encoding& encoding, bool) { trim_offsets(encoding, add_prefix_space); };
}

Result<PostProcessor> make_byte_level(Fields& fields) {
  TANDEM_TRY(const bool add_prefix_space, fields.boolean("add_prefix_space"));
  TANDEM_TRY(const bool trim, fields.boolean("trim_offsets"));
  fields.ignore("use_regex");  // of the pre-tokenizer of the same name
  PostProcessor made;
  made.trims_offsets = trim;
  if (trim) made.steps.push_back(trimming(add_prefix_space));
  return made;
}

/// ["[CLS]", 101]
Result<Token> token_of(Fields& fields, const char* key) {
  TANDEM_TRY(const Json* pair, fields.required(key));
  if (!pair->is_array() || pair->size() != 2 || !(*pair)[0].is_string())
    return fields.wrong(fmt::format("\"{}\" is no pair of token and id", key));
  TANDEM_TRY(const uint32_t id, id_from(fields, (*pair)[1]));
  return Token{id, (*pair)[0].get<std::string>()};
}

Result<PostProcessor> make_bert(Fields& fields) {
  TANDEM_TRY(const Token sep, token_of(fields, "sep"));
  TANDEM_TRY(const Token cls, token_of(fields, "cls"));
  PostProcessor made;
  made.steps.push_back([sep, cls](Encoding& encoding, bool add) {
    if (add) surround(encoding, {cls}, {sep});
  });
  return made;
}

Result<PostProcessor> make_roberta(Fields& fields) {
  TANDEM_TRY(PostProcessor around, make_bert(fields));
  TANDEM_TRY(const bool trim, fields.boolean("trim_offsets", true));
  TANDEM_TRY(const bool add_prefix_space, fields.boolean("add_prefix_space", true));
  around.trims_offsets = trim;
  if (trim) around.steps.insert(around.steps.begin(), trimming(add_prefix_space));
  return around;
}

using Templates = std::map<std::string, std::vector<Token>>;

/// "special_tokens": name -> {"id": name, "ids": [...], "tokens": [...]}
Result<Templates> templates_of(Fields& fields) {
  TANDEM_TRY(const Json* json, fields.required("special_tokens"));
  if (!json->is_object()) return fields.wrong("\"special_tokens\" must be an object");
  Templates templates;
  for (const auto& [name, value] : json->items()) {
    TANDEM_TRY(Fields entry,
               Fields::of(value, fmt::format("{}.special_tokens \"{}\"", fields.place(), name)));
    entry.ignore("id");
    TANDEM_TRY(const Json* ids, entry.required("ids"));
    TANDEM_TRY(const Json* words, entry.required("tokens"));
    if (!ids->is_array() || !words->is_array() || ids->size() != words->size())
      return entry.wrong("\"ids\" and \"tokens\" differ in length");
    for (size_t i = 0; i < ids->size(); ++i) {
      TANDEM_TRY(const uint32_t id, id_from(entry, (*ids)[i]));
      if (!(*words)[i].is_string()) return entry.wrong("a token is no string");
      templates[name].push_back({id, (*words)[i].get<std::string>()});
    }
    TANDEM_CHECK(entry.all_read());
  }
  return templates;
}

struct Around {
  std::vector<Token> before, after;
};

/// "single": [{"SpecialToken": {"id", "type_id"}}, {"Sequence": {"id": "A", "type_id"}}, ...]
Result<Around> single_of(Fields& fields, const Templates& templates) {
  TANDEM_TRY(const Json* single, fields.required("single"));
  if (!single->is_array()) return fields.wrong("\"single\" must be a list");
  Around around;
  size_t texts = 0;
  for (const Json& entry : *single) {
    const bool one = entry.is_object() && entry.size() == 1;
    const std::string kind = one ? entry.begin().key() : "";
    if (kind != "Sequence" && kind != "SpecialToken")
      return fields.wrong("an entry of \"single\" is neither Sequence nor SpecialToken");
    TANDEM_TRY(Fields piece, Fields::of(entry.begin().value(), fields.place() + ".single: " + kind));
    TANDEM_TRY(const std::string id, piece.string("id"));
    piece.ignore("type_id");
    if (kind == "Sequence") {
      if (id != "A") return piece.wrong(fmt::format("sequence \"{}\" in a template for one text", id));
      ++texts;
      continue;
    }
    const auto found = templates.find(id);
    if (found == templates.end()) return piece.wrong(fmt::format("\"{}\" is not in \"special_tokens\"", id));
    std::vector<Token>& side = texts == 0 ? around.before : around.after;
    side.insert(side.end(), found->second.begin(), found->second.end());
  }
  if (texts != 1) return fields.wrong(fmt::format("\"single\" holds the text {} times", texts));
  return around;
}

Result<PostProcessor> make_template(Fields& fields) {
  TANDEM_TRY(const Templates templates, templates_of(fields));
  TANDEM_TRY(const Around around, single_of(fields, templates));
  fields.ignore("pair");
  PostProcessor made;
  made.steps.push_back([around](Encoding& encoding, bool add) {
    if (add) surround(encoding, around.before, around.after);
  });
  return made;
}

Result<PostProcessor> make_sequence(Fields& fields) {
  TANDEM_TRY(std::vector<PostProcessor> all, make_each(fields, "processors", make_post_processor));
  PostProcessor made;
  for (PostProcessor& one : all) {
    made.steps.insert(made.steps.end(), one.steps.begin(), one.steps.end());
    made.trims_offsets = made.trims_offsets || one.trims_offsets;
  }
  return made;
}

constexpr Kind<PostProcessor> kKinds[] = {
    {"BertProcessing", make_bert}, {"ByteLevel", make_byte_level},        {"RobertaProcessing", make_roberta},
    {"Sequence", make_sequence},   {"TemplateProcessing", make_template},
};

}  // namespace

Result<PostProcessor> make_post_processor(const Json& json, const std::string& place) {
  return make_kind<PostProcessor>(kKinds, json, place);
}
std::vector<std::string_view> post_processor_types() { return types_of<PostProcessor>(kKinds); }

}  // namespace tandem::text
