#include "text/added_tokens.h"

#include <algorithm>

#include "text/fields.h"
#include "text/utf8.h"

namespace tandem::text {
namespace {

Result<AddedToken> token_of(Fields& fields) {
  AddedToken token;
  TANDEM_TRY(const uint64_t id, fields.number("id"));
  if (id > kMaxTokenId) return fields.wrong(fmt::format("id {} is above {}", id, kMaxTokenId));
  token.id = uint32_t(id);
  TANDEM_TRY(token.content, fields.string("content"));
  TANDEM_TRY(token.single_word, fields.boolean("single_word"));
  TANDEM_TRY(token.lstrip, fields.boolean("lstrip"));
  TANDEM_TRY(token.rstrip, fields.boolean("rstrip"));
  TANDEM_TRY(token.normalized, fields.boolean("normalized"));
  TANDEM_TRY(token.special, fields.boolean("special"));
  TANDEM_CHECK(fields.all_read());
  if (token.content.empty() || token.content.size() > kMaxTokenBytes)
    return invalid("tokenizer_c9", "{}: content of {} bytes, expected 1 to {}", fields.place(),
                   token.content.size(), kMaxTokenBytes);
  token.matched = token.content;
  return token;
}

Result<std::string> normalized_text(const Normalizer& normalizer, const std::string& text) {
  Pieces pieces(text);
  TANDEM_CHECK(pieces.rewrite(normalizer));
  return std::string(pieces.text());
}

bool stands_alone(std::string_view text, Span at) {
  const bool before = at.begin > 0 && is_word(code_point_before(text, at.begin).code);
  const bool after = at.end < text.size() && is_word(code_point_at(text, at.end).code);
  return !before && !after;
}

uint32_t without_space_before(std::string_view text, uint32_t end, uint32_t lowest) {
  while (end > lowest) {
    const CodePoint point = code_point_before(text, end);
    if (!is_white_space(point.code)) break;
    end -= point.size;
  }
  return end;
}

uint32_t with_space_after(std::string_view text, uint32_t begin) {
  while (begin < text.size()) {
    const CodePoint point = code_point_at(text, begin);
    if (!is_white_space(point.code)) break;
    begin += point.size;
  }
  return begin;
}

}  // namespace

Result<AddedTokens> AddedTokens::read(const Json* json, const Model& model, const Normalizer& normalizer) {
  AddedTokens added;
  if (!json) return added;
  if (!json->is_array()) return unsupported("tokenizer_c1", "added_tokens: expected a list");
  for (size_t i = 0; i < json->size(); ++i)
    TANDEM_CHECK(added.add((*json)[i], fmt::format("added_tokens[{}]", i), model, normalizer));
  return added;
}

Status AddedTokens::add(const Json& json, const std::string& place, const Model& model,
                        const Normalizer& normalizer) {
  TANDEM_TRY(Fields fields, Fields::of(json, place));
  TANDEM_TRY(AddedToken token, token_of(fields));
  const auto in_model = model.id_of(token.content);
  if (in_model && *in_model != token.id)
    return invalid("tokenizer_c9", "{}: \"{}\" has id {}, but {} in the model's vocabulary", place,
                   token.content, token.id, *in_model);
  if (!in_model) {  // the library numbers them itself, and so they must be numbered
    const uint64_t expected = std::max<uint64_t>(model.size(), next_id_);
    if (token.id != expected)
      return invalid("tokenizer_c9", "{}: \"{}\" has id {}, expected the next free one, {}", place,
                     token.content, token.id, expected);
  }
  next_id_ = std::max<uint64_t>(next_id_, token.id + 1);
  if (!by_id_.emplace(token.id, tokens_.size()).second)
    return invalid("tokenizer_c9", "{}: id {} stands twice", place, token.id);
  if (token.normalized && normalizer) {
    TANDEM_TRY(token.matched, normalized_text(normalizer, token.content));
  }
  if (token.special) special_.insert(token.content);
  (token.normalized ? normalized_ : plain_).add(token.matched, uint32_t(tokens_.size()));
  (token.normalized ? any_normalized_ : any_plain_) = true;
  tokens_.push_back(std::move(token));
  return {};
}

const AddedToken* AddedTokens::by_id(uint32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

void AddedTokens::find(const Trie& trie, std::string_view text,
                       std::vector<std::pair<Span, int64_t>>& parts) const {
  parts.clear();
  uint32_t done = 0;
  for (uint32_t at = 0; at < text.size();) {
    if (!trie.starts_with(text[at])) {
      ++at;
      continue;
    }
    uint32_t length = 0, index = 0;
    trie.walk(text.substr(at), [&](uint32_t found, uint32_t value) {
      length = found;
      index = value;
    });
    if (length == 0) {
      ++at;
      continue;
    }
    Span match{at, at + length};
    at = match.end;
    const AddedToken& token = tokens_[index];
    if (token.single_word && !stands_alone(text, match)) continue;
    if (token.lstrip) match.begin = without_space_before(text, match.begin, std::min(done, match.begin));
    if (token.rstrip) match.end = with_space_after(text, match.end);
    if (done < match.begin) parts.push_back({{done, match.begin}, -1});
    parts.push_back({match, int64_t(token.id)});
    done = match.end;
  }
  if (done < text.size()) parts.push_back({{done, uint32_t(text.size())}, -1});
}

void AddedTokens::cut_with(const Trie& trie, bool any, Pieces& pieces) const {
  std::vector<Piece> cut;
  std::vector<std::pair<Span, int64_t>> parts;
  for (const Piece& piece : pieces.list) {
    if (piece.at.begin == piece.at.end) continue;
    if (piece.added >= 0 || !any) {
      cut.push_back(piece);
      if (piece.added < 0) cut.back().origin = pieces.origin_of(piece.at).begin;
      continue;
    }
    find(trie, pieces.text_of(piece), parts);
    for (const auto& [part, id] : parts) {
      const Span at{piece.at.begin + part.begin, piece.at.begin + part.end};
      cut.push_back({at, pieces.origin_of(at).begin, id});
    }
  }
  pieces.list = std::move(cut);
}

Status AddedTokens::cut(const Normalizer& normalizer, Pieces& pieces) const {
  cut_with(plain_, any_plain_, pieces);
  if (normalizer) TANDEM_CHECK(pieces.rewrite(normalizer));
  cut_with(normalized_, any_normalized_, pieces);
  return {};
}

}  // namespace tandem::text
