// Unigram: of all ways to cut a piece into tokens, the one of the highest sum of scores (log probabilities).
// Source: sentencepiece, unigram_model.cc, EncodeOptimized.

#include <algorithm>
#include <limits>

#include "text/fields.h"
#include "text/model.h"
#include "text/trie.h"
#include "text/utf8.h"

namespace tandem::text {
namespace {

constexpr double kUnknownPenalty = 10;  // below the lowest score

class Unigram : public Model {
 public:
  Status read(Fields& fields);
  Status tokenize(std::string_view piece, std::vector<ModelToken>& tokens) const override;

 private:
  struct Best {
    double score = 0;
    uint32_t begin = UINT32_MAX;  ///< of the last token; UINT32_MAX: not reached
    uint32_t id = 0;
  };
  Status read_vocabulary(Fields& fields);
  Result<std::vector<Best>> best_paths(std::string_view piece) const;
  Status finish(std::string_view piece, ModelToken token, std::vector<ModelToken>& tokens) const;

  std::vector<double> scores_;  ///< by id
  std::optional<uint32_t> unknown_;
  double unknown_score_ = 0;
  bool byte_fallback_ = false;
  Trie trie_;
};

Status Unigram::read(Fields& fields) {
  TANDEM_CHECK(read_vocabulary(fields));
  TANDEM_TRY(byte_fallback_, fields.boolean("byte_fallback", false));
  if (fields.member("unk_id")) {
    TANDEM_TRY(const uint64_t unknown, fields.number("unk_id"));
    if (unknown >= scores_.size())
      return invalid("tokenizer_c8", "unk_id is {}, the vocabulary has {} tokens", unknown, scores_.size());
    unknown_ = uint32_t(unknown);
  }
  return {};
}

Status Unigram::read_vocabulary(Fields& fields) {
  TANDEM_TRY(const Json* vocabulary, fields.required("vocab"));
  if (!vocabulary->is_array()) return fields.wrong("\"vocab\" must be a list");
  double lowest = std::numeric_limits<double>::infinity();
  for (const Json& entry : *vocabulary) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
      return fields.wrong(fmt::format("entry {} of \"vocab\" is no pair of token and score", scores_.size()));
    const auto token = entry[0].get<std::string>();
    TANDEM_CHECK(add(token, scores_.size()));
    scores_.push_back(entry[1].get<double>());
    lowest = std::min(lowest, scores_.back());
    trie_.add(token, uint32_t(scores_.size() - 1));
  }
  unknown_score_ = lowest - kUnknownPenalty;
  return {};
}

Result<std::vector<Unigram::Best>> Unigram::best_paths(std::string_view piece) const {
  std::vector<Best> best(piece.size() + 1);
  const auto offer = [&](uint32_t begin, uint32_t end, uint32_t id, double score) {
    if (best[end].begin == UINT32_MAX || score > best[end].score) best[end] = {score, begin, id};
  };
  for (uint32_t at = 0; at < piece.size();) {
    const uint32_t size = code_point_at(piece, at).size;
    const double so_far = best[at].score;
    bool alone = false;  // the character is a token
    trie_.walk(piece.substr(at), [&](uint32_t length, uint32_t id) {
      offer(at, at + length, id, scores_[id] + so_far);
      alone = alone || length == size;
    });
    if (!alone) {
      if (!unknown_)
        return invalid("tokenizer_c7", "\"{}\" is not in the vocabulary, which has no unknown token",
                       piece.substr(at, size));
      offer(at, at + size, *unknown_, unknown_score_ + so_far);
    }
    at += size;
  }
  return best;
}

/// A token as it is, or what stands for words that are none: the tokens of their bytes, or the unknown token.
Status Unigram::finish(std::string_view piece, ModelToken token, std::vector<ModelToken>& tokens) const {
  const std::string_view words = piece.substr(token.at.begin, token.at.end - token.at.begin);
  if (const auto id = id_of(words)) {
    tokens.push_back({*id, token.at, true});
    return {};
  }
  std::vector<ModelToken> bytes;
  for (const char byte : words) {
    const auto id = id_of(fmt::format("<0x{:02X}>", static_cast<unsigned char>(byte)));
    if (!byte_fallback_ || !id) {
      tokens.push_back({*unknown_, token.at, true});
      return {};
    }
    bytes.push_back({*id, token.at, false});
  }
  tokens.insert(tokens.end(), bytes.begin(), bytes.end());
  return {};
}

Status Unigram::tokenize(std::string_view piece, std::vector<ModelToken>& tokens) const {
  TANDEM_TRY(const std::vector<Best> best, best_paths(piece));
  std::vector<ModelToken> path;  // from the end; unknowns side by side are one
  for (auto end = uint32_t(piece.size()); end > 0; end = best[end].begin) {
    const ModelToken token{best[end].id, {best[end].begin, end}, true};
    const bool unknown = unknown_ && token.id == *unknown_;
    if (unknown && !path.empty() && path.back().id == *unknown_)
      path.back().at.begin = token.at.begin;
    else
      path.push_back(token);
  }
  for (auto token = path.rbegin(); token != path.rend(); ++token) TANDEM_CHECK(finish(piece, *token, tokens));
  return {};
}

}  // namespace

Result<std::unique_ptr<Model>> make_unigram(Fields& fields) {
  auto model = std::make_unique<Unigram>();
  TANDEM_CHECK(model->read(fields));
  return std::unique_ptr<Model>(std::move(model));
}

}  // namespace tandem::text
