#include "text/character_map.h"

#include <algorithm>

#include "base/base64.h"
#include "text/trie.h"
#include "text/utf8.h"

namespace tandem::text {
namespace {

uint32_t little_endian(std::string_view bytes) {
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

// A unit of the double array.
uint32_t label(uint32_t unit) { return unit & ((1u << 31) | 0xff); }
uint32_t offset(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
bool has_leaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t value(uint32_t unit) { return unit & ((1u << 31) - 1); }

}  // namespace

Result<CharacterMap> CharacterMap::parse(std::string_view base64) {
  CharacterMap map;
  if (base64.empty()) return map;
  TANDEM_TRY(const std::string bytes, from_base64(base64));
  if (bytes.size() < 4) return corrupt("tokenizer_c3", "a character map of {} bytes", bytes.size());
  const uint32_t size = little_endian(bytes);
  if (size > bytes.size() - 4 || size % 4 != 0)
    return corrupt("tokenizer_c3", "a character map's trie of {} bytes, {} follow", size, bytes.size() - 4);
  for (uint32_t at = 4; at < 4 + size; at += 4)
    map.trie_.push_back(little_endian(std::string_view(bytes).substr(at)));
  map.texts_ = bytes.substr(4 + size);
  if (valid_utf8(map.texts_) != map.texts_)
    return corrupt("tokenizer_c3", "a character map's texts are no UTF-8");
  return map;
}

std::optional<std::string_view> CharacterMap::find(std::string_view text) const {
  if (trie_.empty()) return std::nullopt;
  uint32_t at = offset(trie_[0]);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    at ^= byte;
    if (byte == 0 || at >= trie_.size() || label(trie_[at]) != byte) return std::nullopt;
    const uint32_t unit = trie_[at];
    at ^= offset(unit);
    if (!has_leaf(unit)) continue;
    if (at >= trie_.size() || value(trie_[at]) >= texts_.size()) return std::nullopt;
    const std::string_view rest = std::string_view(texts_).substr(value(trie_[at]));
    const std::string_view found = rest.substr(0, std::min(rest.find('\0'), kMaxTokenBytes));
    if (!found.empty() && !starts_character(found[0])) return std::nullopt;
    return found.substr(0, complete_prefix(found));
  }
  return std::nullopt;
}

}  // namespace tandem::text
