#pragma once
// The compiled character map of a sentencepiece model ("precompiled_charsmap"), in base64:
//   u32 size of the trie in bytes, little-endian; the trie, units of u32; texts, each ended by a zero byte
// The trie is a double array (Darts-clone); a leaf's value is where its text starts.
// Source: sentencepiece, normalizer.cc, Normalizer::DecodePrecompiledCharsMap; darts.h, DoubleArrayUnit.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem::text {

class CharacterMap {
 public:
  /// Errors: corrupt tokenizer_c3.
  static Result<CharacterMap> parse(std::string_view base64);
  /// The text for the shortest key that `text` starts with. A step that leaves the trie ends the search.
  std::optional<std::string_view> find(std::string_view text) const;

 private:
  std::vector<uint32_t> trie_;
  std::string texts_;
};

}  // namespace tandem::text
