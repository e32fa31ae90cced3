#pragma once
// The models of a tokenizer.json: a piece of text in, ids of the vocabulary out.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/span.h"

namespace tandem::text {

constexpr uint32_t kMaxTokenId = 1u << 22;

/// A token of a piece; `at` counts bytes of the piece.
struct ModelToken {
  uint32_t id = 0;
  Span at;
  bool spells_piece =
      false;  ///< its words are the bytes of the piece, not the vocabulary's (Unigram's unknowns)
};

/// Tokens of the pieces seen last, by one thread; bounded. Only for the model that filled it.
class WordCache {
 public:
  /// The tokens of a piece, or null. Valid until the next store().
  const std::vector<ModelToken>* find(std::string_view piece, uint64_t hash) const;
  void store(std::string_view piece, uint64_t hash, std::vector<ModelToken> tokens);
  static uint64_t hash_of(std::string_view piece);
  static constexpr size_t kMaxPieceBytes = 128;

 private:
  struct Slot {
    uint64_t hash = 0;
    std::string piece;
    std::vector<ModelToken> tokens;
  };
  static constexpr size_t kSlots = 1 << 15;
  std::vector<Slot> slots_;
};

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return WordCache::hash_of(text); }
};
using Vocabulary = std::unordered_map<std::string, uint32_t, TextHash, std::equal_to<>>;

class Model {
 public:
  virtual ~Model() = default;
  /// Appends the tokens of a piece that is not empty. Any number of threads may call.
  /// Errors: tokenizer_c7, a piece with characters that are not in the vocabulary of a model without an
  /// unknown token.
  virtual Status tokenize(std::string_view piece, std::vector<ModelToken>& tokens) const = 0;
  /// Whether it can read pieces whose bytes are not spelled in the byte alphabet; then, whether it does.
  virtual bool set_reads_bytes() { return false; }
  std::optional<uint32_t> id_of(std::string_view token) const;
  /// The token's words; empty for an id that has none.
  std::optional<std::string_view> token_of(uint32_t id) const;
  size_t size() const { return ids_.size(); }

 protected:
  /// Errors: tokenizer_c8, an id twice or above kMaxTokenId, a token above kMaxTokenBytes.
  Status add(std::string token, uint64_t id);

  Vocabulary ids_;
  std::vector<std::string_view> tokens_;  ///< by id, into the keys of ids_
};

/// Errors: as make_normalizer, and tokenizer_c8 for vocabulary and merges that do not fit together.
Result<std::unique_ptr<Model>> make_model(const Json& json, const std::string& place);
std::vector<std::string_view> model_types();

class Fields;
Result<std::unique_ptr<Model>> make_bpe(Fields& fields);
Result<std::unique_ptr<Model>> make_word_piece(Fields& fields);
Result<std::unique_ptr<Model>> make_unigram(Fields& fields);

}  // namespace tandem::text
