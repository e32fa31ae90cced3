#include "text/tokenizer.h"

#include <numeric>

#include "text/added_tokens.h"
#include "text/decoder.h"
#include "text/fields.h"
#include "text/post_processor.h"
#include "text/pre_tokenizer.h"
#include "text/utf8.h"

namespace tandem::text {

struct Tokenizer::Parts {
  std::unique_ptr<Model> model;
  Normalizer normalizer;  ///< empty: none
  PreTokenizer pre_tokenizer;
  PostProcessor post_processor;
  MadeDecoder decoder;  ///< empty: tokens joined by spaces
  AddedTokens added;
  bool bytes_stay = false;  ///< the model reads bytes, so they are not spelled in the byte alphabet first
  NotApplied not_applied;
};

namespace {

/// "truncation" and "padding" in words; null where there is none.
Result<std::optional<std::string>> truncation_of(Fields& fields) {
  const Json* json = fields.member("truncation");
  if (!json) return std::optional<std::string>{};
  TANDEM_TRY(Fields truncation, Fields::of(*json, "truncation"));
  TANDEM_TRY(const uint64_t length, truncation.number("max_length"));
  return std::optional(fmt::format("to {} tokens", length));
}

Result<std::optional<std::string>> padding_of(Fields& fields) {
  const Json* json = fields.member("padding");
  if (!json) return std::optional<std::string>{};
  TANDEM_TRY(Fields padding, Fields::of(*json, "padding"));
  TANDEM_TRY(const std::string token, padding.string("pad_token"));
  const Json* strategy = padding.member("strategy");
  const bool fixed = strategy && strategy->is_object() && strategy->contains("Fixed");
  return std::optional(fixed ? fmt::format("to {} tokens with \"{}\"", (*strategy)["Fixed"].dump(), token)
                             : fmt::format("to the longest of a batch with \"{}\"", token));
}

template <class Made>
Status read_section(Fields& fields, const char* key, Result<Made> (*make)(const Json&, const std::string&),
                    Made& made) {
  const Json* json = fields.member(key);
  if (!json) return {};
  TANDEM_TRY(made, make(*json, key));
  return {};
}

/// The index of the character that each byte belongs to, and their number at the end; empty for ASCII.
std::vector<uint32_t> character_indices(std::string_view text) {
  const size_t count = count_characters(text);
  if (count == text.size()) return {};
  std::vector<uint32_t> indices(text.size() + 1, uint32_t(count));
  uint32_t index = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if (at > 0 && starts_character(text[at])) ++index;
    indices[at] = index;
  }
  return indices;
}

/// What encoding one text fills in.
class Encoder {
 public:
  Encoder(const Pieces& pieces, const Model& model, EncodeMemory& memory, bool details, size_t text_size)
      : pieces_(pieces), model_(model), memory_(memory), details_(details), text_size_(text_size) {}

  void set_characters(std::vector<uint32_t> indices) { characters_ = std::move(indices); }

  Status add(const Piece& piece) {
    if (piece.added >= 0) {
      const uint32_t size = piece.at.end - piece.at.begin;
      emit(piece, {uint32_t(piece.added), {0, size}, true});
      return {};
    }
    const std::string_view text = pieces_.text_of(piece);
    if (text.size() > WordCache::kMaxPieceBytes) return add_long(piece, text);
    const uint64_t hash = WordCache::hash_of(text);
    const std::vector<ModelToken>* known = memory_.words.find(text, hash);
    if (!known) {
      std::vector<ModelToken> tokens;
      TANDEM_CHECK(model_.tokenize(text, tokens));
      memory_.words.store(text, hash, std::move(tokens));
      known = memory_.words.find(text, hash);
    }
    for (const ModelToken& token : *known) emit(piece, token);
    return {};
  }

  Encoding take() { return std::move(encoding_); }

 private:
  Status add_long(const Piece& piece, std::string_view text) {
    std::vector<ModelToken> tokens;
    TANDEM_CHECK(model_.tokenize(text, tokens));
    encoding_.ids.reserve(encoding_.ids.size() + tokens.size());
    for (const ModelToken& token : tokens) emit(piece, token);
    return {};
  }

  void emit(const Piece& piece, const ModelToken& token) {
    encoding_.ids.push_back(token.id);
    if (!details_) return;
    const Span at{piece.at.begin + token.at.begin, piece.at.begin + token.at.end};
    const std::string_view words = pieces_.text().substr(at.begin, at.end - at.begin);
    encoding_.pieces.emplace_back(token.spells_piece ? words : *model_.token_of(token.id));
    encoding_.offsets.push_back(in_characters(pieces_.origin_of(at)));
    encoding_.special.push_back(false);
  }

  Span in_characters(Span bytes) const {
    if (characters_.empty() || bytes.begin >= text_size_) return bytes;
    const uint32_t end = bytes.end > bytes.begin ? characters_[bytes.end - 1] + 1 : characters_[bytes.end];
    return {characters_[bytes.begin], end};
  }

  const Pieces& pieces_;
  const Model& model_;
  EncodeMemory& memory_;
  bool details_;
  size_t text_size_;
  std::vector<uint32_t> characters_;
  Encoding encoding_;
};

}  // namespace

Result<Tokenizer> Tokenizer::parse(std::string_view text) {
  TANDEM_TRY(const Json json, parse_json(text));
  TANDEM_TRY(Fields fields, Fields::of(json, "tokenizer.json"));
  TANDEM_TRY(const std::string version, fields.string("version", "1.0"));
  if (version != "1.0") return unsupported("tokenizer_c10", "\"version\" is \"{}\", we read 1.0", version);
  auto parts = std::make_shared<Parts>();
  TANDEM_TRY(const Json* model, fields.required("model"));
  TANDEM_TRY(parts->model, make_model(*model, "model"));
  TANDEM_CHECK(read_section(fields, "normalizer", make_normalizer, parts->normalizer));
  TANDEM_CHECK(read_section(fields, "pre_tokenizer", make_pre_tokenizer, parts->pre_tokenizer));
  TANDEM_CHECK(read_section(fields, "post_processor", make_post_processor, parts->post_processor));
  TANDEM_CHECK(read_section(fields, "decoder", make_decoder, parts->decoder));
  TANDEM_TRY(parts->added,
             AddedTokens::read(fields.member("added_tokens"), *parts->model, parts->normalizer));
  TANDEM_TRY(parts->not_applied.truncation, truncation_of(fields));
  TANDEM_TRY(parts->not_applied.padding, padding_of(fields));
  TANDEM_CHECK(fields.all_read());
  parts->bytes_stay = parts->pre_tokenizer.to_bytes && parts->model->set_reads_bytes();
  Tokenizer tokenizer;
  tokenizer.parts_ = std::move(parts);
  return tokenizer;
}

Result<Encoding> Tokenizer::encode(std::string_view bytes, EncodeMemory& memory,
                                   const EncodeOptions& options) const {
  if (bytes.size() > kMaxTextBytes)
    return invalid("tokenizer_c6", "a text of {} bytes, at most {} are read at once", bytes.size(),
                   kMaxTextBytes);
  const std::string text = valid_utf8(bytes);
  Pieces pieces(text);
  TANDEM_CHECK(parts_->added.cut(parts_->normalizer, pieces));
  TANDEM_CHECK(pre_tokenize(parts_->pre_tokenizer, pieces, parts_->bytes_stay));
  Encoder encoder(pieces, *parts_->model, memory, options.details, text.size());
  if (options.details) encoder.set_characters(character_indices(text));
  for (const Piece& piece : pieces.list)
    if (piece.at.begin != piece.at.end) TANDEM_CHECK(encoder.add(piece));
  Encoding encoding = encoder.take();
  for (const auto& step : parts_->post_processor.steps) step(encoding, options.add_special_tokens);
  return encoding;
}

std::string Tokenizer::decode(const std::vector<uint32_t>& ids, bool skip_special_tokens) const {
  const bool bytes_alone = decodes_bytes();
  std::string bytes;
  Words words;
  for (const uint32_t id : ids) {
    const auto token = token_of(id);
    if (!token || (skip_special_tokens && parts_->added.is_special(*token))) continue;
    if (bytes_alone)
      bytes += bytes_of_token(*token);
    else
      words.emplace_back(*token);
  }
  if (bytes_alone) return valid_utf8(bytes);
  if (parts_->decoder.decode) parts_->decoder.decode(words);
  const std::string_view between = parts_->decoder.decode ? "" : " ";
  for (size_t i = 0; i < words.size(); ++i) bytes.append(i > 0 ? between : "").append(words[i]);
  return bytes;
}

std::optional<uint32_t> Tokenizer::id_of(std::string_view token) const {
  for (const AddedToken& added : parts_->added.all())
    if (added.content == token) return added.id;
  return parts_->model->id_of(token);
}

std::optional<std::string_view> Tokenizer::token_of(uint32_t id) const {
  if (const AddedToken* added = parts_->added.by_id(id)) return added->matched;
  return parts_->model->token_of(id);
}

size_t Tokenizer::vocabulary_size() const {
  const auto outside = [&](size_t count, const AddedToken& token) {
    return count + !parts_->model->token_of(token.id).has_value();
  };
  const auto& added = parts_->added.all();
  return std::accumulate(added.begin(), added.end(), parts_->model->size(), outside);
}

const NotApplied& Tokenizer::not_applied() const { return parts_->not_applied; }
bool Tokenizer::decodes_bytes() const { return parts_->decoder.bytes_alone; }
bool Tokenizer::is_special(uint32_t id) const {
  const AddedToken* added = parts_->added.by_id(id);
  return added && added->special;
}

Result<Tokenizer> read_tokenizer(const FileSystem& files, const std::string& path) {
  TANDEM_TRY(const PathKind kind, files.kind(path));
  const std::string file = kind == PathKind::directory ? join(path, "tokenizer.json") : path;
  TANDEM_TRY(const std::string text, read_text(files, file));
  auto tokenizer = Tokenizer::parse(text);
  if (!tokenizer.ok()) {
    Error error = std::move(tokenizer).error();
    if (!error.where.empty()) error.text = error.where + ": " + error.text;
    error.where = file;
    return error;
  }
  return tokenizer;
}

}  // namespace tandem::text
