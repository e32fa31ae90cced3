#include "text/model.h"

#include <cstring>

#include "text/kinds.h"
#include "text/trie.h"

namespace tandem::text {
namespace {

uint64_t mix(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

constexpr Kind<std::unique_ptr<Model>> kKinds[] = {
    {"BPE", make_bpe},
    {"Unigram", make_unigram},
    {"WordPiece", make_word_piece},
};

}  // namespace

uint64_t WordCache::hash_of(std::string_view piece) {
  uint64_t hash = 0x9e3779b97f4a7c15 ^ piece.size();
  while (piece.size() >= 8) {
    uint64_t word;
    std::memcpy(&word, piece.data(), 8);
    hash = mix(hash ^ word, 0xbf58476d1ce4e5b9);
    piece.remove_prefix(8);
  }
  uint64_t word = 0;
  std::memcpy(&word, piece.data(), piece.size());
  return mix(hash ^ word, 0x94d049bb133111eb);
}

const std::vector<ModelToken>* WordCache::find(std::string_view piece, uint64_t hash) const {
  if (slots_.empty()) return nullptr;
  const Slot& slot = slots_[hash % kSlots];
  return slot.hash == hash && slot.piece == piece ? &slot.tokens : nullptr;
}

void WordCache::store(std::string_view piece, uint64_t hash, std::vector<ModelToken> tokens) {
  if (slots_.empty()) slots_.resize(kSlots);
  slots_[hash % kSlots] = {hash, std::string(piece), std::move(tokens)};
}

std::optional<uint32_t> Model::id_of(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? std::nullopt : std::optional<uint32_t>(found->second);
}

std::optional<std::string_view> Model::token_of(uint32_t id) const {
  if (id >= tokens_.size() || tokens_[id].data() == nullptr) return std::nullopt;
  return tokens_[id];
}

Status Model::add(std::string token, uint64_t id) {
  if (id > kMaxTokenId)
    return invalid("tokenizer_c8", "token \"{}\" has id {}, at most {} is read", token, id, kMaxTokenId);
  if (token.size() > kMaxTokenBytes)
    return invalid("tokenizer_c8", "a token of {} bytes, at most {} are read", token.size(), kMaxTokenBytes);
  const auto [entry, is_new] = ids_.try_emplace(std::move(token), uint32_t(id));
  if (!is_new) return invalid("tokenizer_c8", "token \"{}\" stands twice in the vocabulary", entry->first);
  if (tokens_.size() <= id) tokens_.resize(id + 1);
  if (tokens_[id].data() != nullptr)
    return invalid("tokenizer_c8", "tokens \"{}\" and \"{}\" have the same id {}", tokens_[id], entry->first,
                   id);
  tokens_[id] = entry->first;
  return {};
}

Result<std::unique_ptr<Model>> make_model(const Json& json, const std::string& place) {
  return make_kind<std::unique_ptr<Model>>(kKinds, json, place);
}
std::vector<std::string_view> model_types() { return types_of<std::unique_ptr<Model>>(kKinds); }

}  // namespace tandem::text
