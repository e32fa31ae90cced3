// Byte-pair encoding: a piece starts as characters (or bytes), and the pairs of the merge list are joined.

#include <array>

#include "text/byte_level.h"
#include "text/fields.h"
#include "text/merge_table.h"
#include "text/model.h"
#include "text/utf8.h"

namespace tandem::text {
namespace {

class Bpe : public Model {
 public:
  Status read(Fields& fields);
  Status tokenize(std::string_view piece, std::vector<ModelToken>& tokens) const override;
  bool set_reads_bytes() override;

 private:
  Status read_merges(Fields& fields);
  Result<std::pair<std::string, std::string>> pair_of(const Json& merge, size_t index) const;
  Status add_merge(const std::string& left, const std::string& right, uint32_t rank);
  uint32_t start(std::string_view piece, std::vector<Symbol>& word) const;
  bool start_with_bytes(std::string_view character, uint32_t begin, std::vector<Symbol>& word) const;
  std::optional<uint32_t> whole(std::string_view piece) const;

  MergeTable merges_;
  std::optional<uint32_t> unknown_;
  std::string prefix_, suffix_;
  bool fuse_unknown_ = false, byte_fallback_ = false, ignore_merges_ = false;
  std::array<std::optional<uint32_t>, 256> fallback_ids_;  ///< of "<0x00>" and on
  bool reads_bytes_ = false;
  std::array<uint32_t, 256> byte_ids_{};
  Vocabulary ids_of_bytes_;  ///< with ignore_merges: the vocabulary by the bytes that it spells
};

Status Bpe::read(Fields& fields) {
  TANDEM_TRY(const Json* vocabulary, fields.required("vocab"));
  if (!vocabulary->is_object()) return fields.wrong("\"vocab\" must be an object");
  ids_.reserve(vocabulary->size());
  for (const auto& [token, id] : vocabulary->items()) {
    if (!id.is_number_unsigned())
      return fields.wrong(fmt::format("the id of \"{}\" is no whole number", token));
    TANDEM_CHECK(add(token, id.get<uint64_t>()));
  }
  TANDEM_TRY(prefix_, fields.string("continuing_subword_prefix", ""));
  TANDEM_TRY(suffix_, fields.string("end_of_word_suffix", ""));
  TANDEM_TRY(fuse_unknown_, fields.boolean("fuse_unk", false));
  TANDEM_TRY(byte_fallback_, fields.boolean("byte_fallback", false));
  TANDEM_TRY(ignore_merges_, fields.boolean("ignore_merges", false));
  TANDEM_TRY(const std::optional<std::string> unknown, fields.optional_string("unk_token"));
  if (unknown) {
    unknown_ = id_of(*unknown);
    if (!unknown_) return invalid("tokenizer_c8", "unk_token \"{}\" is not in the vocabulary", *unknown);
  }
  const Json* dropout = fields.member("dropout");
  if (dropout && !(dropout->is_number() && dropout->get<double>() == 0))
    return fields.wrong("\"dropout\" is for training: encoding would be random");
  for (int byte = 0; byte < 256; ++byte) fallback_ids_[byte] = id_of(fmt::format("<0x{:02X}>", byte));
  return read_merges(fields);
}

Status Bpe::read_merges(Fields& fields) {
  TANDEM_TRY(const Json* merges, fields.required("merges"));
  if (!merges->is_array()) return fields.wrong("\"merges\" must be a list");
  merges_ = MergeTable(merges->size());
  for (size_t i = 0; i < merges->size(); ++i) {
    TANDEM_TRY(const auto pair, pair_of((*merges)[i], i));
    TANDEM_CHECK(add_merge(pair.first, pair.second, uint32_t(i)));
  }
  return {};
}

/// "a b", or ["a", "b"] since tokens may hold spaces.
Result<std::pair<std::string, std::string>> Bpe::pair_of(const Json& merge, size_t index) const {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return std::pair(merge[0].get<std::string>(), merge[1].get<std::string>());
  const std::string text = merge.is_string() ? merge.get<std::string>() : "";
  const size_t space = text.find(' ');
  if (space == text.npos || text.find(' ', space + 1) != text.npos)
    return invalid("tokenizer_c8", "merge {} is no pair of tokens", index);
  return std::pair(text.substr(0, space), text.substr(space + 1));
}

Status Bpe::add_merge(const std::string& left, const std::string& right, uint32_t rank) {
  const auto missing = [&](const std::string& token) {
    return invalid("tokenizer_c8", "merge {} needs \"{}\", which is not in the vocabulary", rank, token);
  };
  if (right.size() < prefix_.size()) return missing(right);
  const std::string joined = left + right.substr(prefix_.size());
  const auto left_id = id_of(left), right_id = id_of(right), id = id_of(joined);
  if (!left_id) return missing(left);
  if (!right_id) return missing(right);
  if (!id) return missing(joined);
  merges_.put(*left_id, *right_id, {rank, *id});
  return {};
}

bool Bpe::set_reads_bytes() {
  if (!prefix_.empty() || !suffix_.empty()) return false;
  for (int byte = 0; byte < 256; ++byte) {
    std::string character;
    append_utf8(character, byte_characters()[byte]);
    const auto id = id_of(character);
    if (!id) return false;
    byte_ids_[byte] = *id;
  }
  reads_bytes_ = true;
  if (ignore_merges_)
    for (const auto& [token, id] : ids_)
      if (const auto bytes = bytes_spelled(token)) ids_of_bytes_.emplace(*bytes, id);
  return true;
}

std::optional<uint32_t> Bpe::whole(std::string_view piece) const {
  if (!ignore_merges_) return std::nullopt;
  const Vocabulary& ids = reads_bytes_ ? ids_of_bytes_ : ids_;
  const auto found = ids.find(piece);
  return found == ids.end() ? std::nullopt : std::optional<uint32_t>(found->second);
}

/// The symbols to merge, and the bytes that they cover: a character that is not in the vocabulary is its
/// bytes' tokens, or the unknown token, or (without one) not there at all, in ids and offsets, as in
/// `tokenizers`.
uint32_t Bpe::start(std::string_view piece, std::vector<Symbol>& word) const {
  if (reads_bytes_) {
    word.resize(piece.size());
    for (uint32_t i = 0; i < piece.size(); ++i)
      word[i] = {byte_ids_[static_cast<unsigned char>(piece[i])], i};
    return uint32_t(piece.size());
  }
  bool after_unknown = false;
  uint32_t covered = 0;
  std::string spelled;
  for (size_t at = 0; at < piece.size();) {
    const uint32_t size = code_point_at(piece, at).size;
    std::string_view character = piece.substr(at, size);
    if (!prefix_.empty() || !suffix_.empty()) {
      spelled = (at > 0 ? prefix_ : "") + std::string(character) + (at + size == piece.size() ? suffix_ : "");
      character = spelled;
    }
    at += size;
    const auto id = id_of(character);
    const bool known = id || start_with_bytes(character, covered, word);
    if (id) word.push_back({*id, covered});
    if (!known && !unknown_) continue;
    if (!known && !(after_unknown && fuse_unknown_)) word.push_back({*unknown_, covered});
    after_unknown = !known;
    covered += size;
  }
  return covered;
}

/// Whether the vocabulary has a token for each byte; then these are appended.
bool Bpe::start_with_bytes(std::string_view character, uint32_t begin, std::vector<Symbol>& word) const {
  if (!byte_fallback_) return false;
  for (const char byte : character)
    if (!fallback_ids_[static_cast<unsigned char>(byte)]) return false;
  for (uint32_t i = 0; i < character.size(); ++i)
    word.push_back({*fallback_ids_[static_cast<unsigned char>(character[i])], begin + i});
  return true;
}

Status Bpe::tokenize(std::string_view piece, std::vector<ModelToken>& tokens) const {
  if (const auto id = whole(piece)) {
    tokens.push_back({*id, {0, uint32_t(piece.size())}, false});
    return {};
  }
  thread_local std::vector<Symbol> word;
  word.clear();
  const uint32_t covered = start(piece, word);
  merge_all(merges_, word);
  for (size_t i = 0; i < word.size(); ++i)
    tokens.push_back({word[i].id, {word[i].begin, i + 1 < word.size() ? word[i + 1].begin : covered}, false});
  if (word.capacity() > (size_t(1) << 20)) std::vector<Symbol>().swap(word);  // one huge piece does not stay
  return {};
}

}  // namespace

Result<std::unique_ptr<Model>> make_bpe(Fields& fields) {
  auto model = std::make_unique<Bpe>();
  TANDEM_CHECK(model->read(fields));
  return std::unique_ptr<Model>(std::move(model));
}

}  // namespace tandem::text
