#pragma once
// Small tokenizer.json files for tests.

#include <fmt/format.h>

#include <string>
#include <vector>

#include "text/byte_level.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace tandem::text {

struct Sections {
  std::string model;
  std::string normalizer = "null", pre_tokenizer = "null", post_processor = "null", decoder = "null",
              added = "[]";
};

inline std::string tokenizer_json(const Sections& sections) {
  return fmt::format(
      R"({{"version":"1.0","truncation":null,"padding":null,"added_tokens":{},"normalizer":{},"pre_tokenizer":{},)"
      R"("post_processor":{},"decoder":{},"model":{}}})",
      sections.added, sections.normalizer, sections.pre_tokenizer, sections.post_processor, sections.decoder,
      sections.model);
}

/// Byte-level BPE: the 256 bytes as ids 0 to 255, and the merges' results after them.
inline std::string byte_bpe(const std::vector<std::pair<std::string, std::string>>& merges,
                            const std::string& more = "") {
  Json vocabulary = Json::object(), list = Json::array();
  for (int byte = 0; byte < 256; ++byte) {
    std::string token;
    append_utf8(token, byte_characters()[byte]);
    vocabulary[token] = byte;
  }
  for (const auto& [left, right] : merges) {
    list.push_back({left, right});
    if (!vocabulary.contains(left + right)) vocabulary[left + right] = vocabulary.size();
  }
  return fmt::format(R"({{"type":"BPE","vocab":{},"merges":{}{}}})", vocabulary.dump(), list.dump(), more);
}

/// WordPiece over the given tokens, "[UNK]" first: each token is its own id.
inline std::string word_piece(const std::vector<std::string>& tokens) {
  Json vocabulary{{"[UNK]", 0}};
  for (const std::string& token : tokens) vocabulary[token] = vocabulary.size();
  return fmt::format(R"({{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##",)"
                     R"("max_input_chars_per_word":20,"vocab":{}}})",
                     vocabulary.dump());
}

/// A pre-tokenizer, post-processor or decoder at bytes.
inline const std::string kByteLevel =
    R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})";

/// "added_tokens" with one special token.
inline std::string added_token(uint32_t id, const std::string& content, bool special = true) {
  return fmt::format(R"([{{"id":{},"content":"{}","single_word":false,"lstrip":false,"rstrip":false,)"
                     R"("normalized":false,"special":{}}}])",
                     id, content, special);
}

inline Result<Tokenizer> parse(const Sections& sections) {
  return Tokenizer::parse(tokenizer_json(sections));
}

/// Pieces of a text, with details.
inline Encoding encode(const Sections& sections, std::string_view text) {
  auto tokenizer = parse(sections);
  if (!tokenizer.ok()) return {{}, {tokenizer.error().message()}, {}, {}};
  EncodeMemory memory;
  auto encoding = tokenizer.value().encode(text, memory, {.add_special_tokens = true, .details = true});
  if (!encoding.ok()) return {{}, {encoding.error().message()}, {}, {}};
  return std::move(encoding).value();
}

}  // namespace tandem::text
