// WordPiece: the longest token that a word starts with, then the longest that goes on, marked by a prefix.

#include "text/fields.h"
#include "text/model.h"
#include "text/trie.h"
#include "text/utf8.h"

namespace tandem::text {
namespace {

class WordPiece : public Model {
 public:
  Status read(Fields& fields);
  Status tokenize(std::string_view piece, std::vector<ModelToken>& tokens) const override;

 private:
  std::optional<ModelToken> longest(std::string_view piece, uint32_t begin) const;

  uint32_t unknown_ = 0;
  std::string prefix_;
  uint64_t max_characters_ = 0;
  Trie first_, later_;  ///< tokens at the start of a word; and after it, without their prefix
};

Status WordPiece::read(Fields& fields) {
  TANDEM_TRY(const Json* vocabulary, fields.required("vocab"));
  if (!vocabulary->is_object()) return fields.wrong("\"vocab\" must be an object");
  ids_.reserve(vocabulary->size());
  for (const auto& [token, id] : vocabulary->items()) {
    if (!id.is_number_unsigned())
      return fields.wrong(fmt::format("the id of \"{}\" is no whole number", token));
    TANDEM_CHECK(add(token, id.get<uint64_t>()));
  }
  TANDEM_TRY(prefix_, fields.string("continuing_subword_prefix", "##"));
  for (const auto& [token, id] : ids_) {
    first_.add(token, id);
    if (token.starts_with(prefix_)) later_.add(std::string_view(token).substr(prefix_.size()), id);
  }
  TANDEM_TRY(max_characters_, fields.number("max_input_chars_per_word", 100));
  TANDEM_TRY(const std::string unknown, fields.string("unk_token", "[UNK]"));
  const auto id = id_of(unknown);
  if (!id) return invalid("tokenizer_c8", "unk_token \"{}\" is not in the vocabulary", unknown);
  unknown_ = *id;
  return {};
}

std::optional<ModelToken> WordPiece::longest(std::string_view piece, uint32_t begin) const {
  std::optional<ModelToken> token;
  (begin > 0 ? later_ : first_).walk(piece.substr(begin), [&](uint32_t length, uint32_t id) {
    token = ModelToken{id, {begin, begin + length}, false};
  });
  return token;
}

Status WordPiece::tokenize(std::string_view piece, std::vector<ModelToken>& tokens) const {
  const ModelToken unknown{unknown_, {0, uint32_t(piece.size())}, false};
  if (count_characters(piece) > max_characters_) return tokens.push_back(unknown), Status{};
  const size_t before = tokens.size();
  for (uint32_t at = 0; at < piece.size();) {
    const auto token = longest(piece, at);
    if (!token) {
      tokens.resize(before);
      tokens.push_back(unknown);
      return {};
    }
    tokens.push_back(*token);
    at = token->at.end;
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Model>> make_word_piece(Fields& fields) {
  auto model = std::make_unique<WordPiece>();
  TANDEM_CHECK(model->read(fields));
  return std::unique_ptr<Model>(std::move(model));
}

}  // namespace tandem::text
