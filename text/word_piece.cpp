// WordPiece: the longest token that a word starts with, then the longest that goes on, marked by a prefix.

#include "text/fields.h"
#include "text/model.h"
#include "text/utf8.h"

namespace tandem::text {
namespace {

class WordPiece : public Model {
 public:
  Status read(Fields& fields);
  Status tokenize(std::string_view piece, std::vector<ModelToken>& tokens) const override;

 private:
  std::optional<ModelToken> longest(std::string_view piece, uint32_t begin, std::string& spelled) const;

  uint32_t unknown_ = 0;
  std::string prefix_;
  uint64_t max_characters_ = 0;
  size_t longest_token_ = 0;  ///< bytes
};

Status WordPiece::read(Fields& fields) {
  TANDEM_TRY(const Json* vocabulary, fields.required("vocab"));
  if (!vocabulary->is_object()) return fields.wrong("\"vocab\" must be an object");
  ids_.reserve(vocabulary->size());
  for (const auto& [token, id] : vocabulary->items()) {
    if (!id.is_number_unsigned())
      return fields.wrong(fmt::format("the id of \"{}\" is no whole number", token));
    longest_token_ = std::max(longest_token_, token.size());
    TANDEM_CHECK(add(token, id.get<uint64_t>()));
  }
  TANDEM_TRY(prefix_, fields.string("continuing_subword_prefix", "##"));
  TANDEM_TRY(max_characters_, fields.number("max_input_chars_per_word", 100));
  TANDEM_TRY(const std::string unknown, fields.string("unk_token", "[UNK]"));
  const auto id = id_of(unknown);
  if (!id) return invalid("tokenizer_c8", "unk_token \"{}\" is not in the vocabulary", unknown);
  unknown_ = *id;
  return {};
}

std::optional<ModelToken> WordPiece::longest(std::string_view piece, uint32_t begin,
                                             std::string& spelled) const {
  const std::string_view prefix = begin > 0 ? std::string_view(prefix_) : std::string_view();
  auto end = uint32_t(std::min<size_t>(piece.size(), begin + longest_token_));
  spelled.assign(prefix);
  spelled += piece.substr(begin, end - begin);
  for (; end > begin; --end) {
    const std::string_view token = std::string_view(spelled).substr(0, prefix.size() + end - begin);
    if (const auto id = id_of(token)) return ModelToken{*id, {begin, end}, false};
  }
  return std::nullopt;
}

Status WordPiece::tokenize(std::string_view piece, std::vector<ModelToken>& tokens) const {
  const ModelToken unknown{unknown_, {0, uint32_t(piece.size())}, false};
  if (count_characters(piece) > max_characters_) return tokens.push_back(unknown), Status{};
  const size_t before = tokens.size();
  std::string spelled;
  for (uint32_t at = 0; at < piece.size();) {
    const auto token = longest(piece, at, spelled);
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
