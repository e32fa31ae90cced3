#pragma once
// A tokenizer as a tokenizer.json describes it: text to token ids and back, with the ids, offsets and text of
// the `tokenizers` library. docs/tokenizer.md lists what is supported; anything else in a file is an error.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "text/encoding.h"
#include "text/model.h"

namespace tandem::text {

struct EncodeOptions {
  bool add_special_tokens = true;  ///< those of the post-processor
  bool details = false;            ///< pieces, offsets and special, too
};

/// A section of the file that is read but not applied.
struct NotApplied {
  std::optional<std::string> truncation;  ///< in words, "to 128 tokens"
  std::optional<std::string> padding;
};

/// What one thread keeps between texts: the tokens of the words it saw. Start a new one for another
/// tokenizer.
struct EncodeMemory {
  WordCache words;
};

class Tokenizer {
 public:
  /// Reads the text of a tokenizer.json.
  /// Errors: json_c1 to c5; tokenizer_c1 a key that is missing, wrong or unknown; c2 a type that is not
  /// supported; c3 a character map; c4 a pattern; c8 a vocabulary; c9 added tokens; c10 its "version".
  static Result<Tokenizer> parse(std::string_view json);

  /// The tokens of a text. Ill-formed UTF-8 is replaced by U+FFFD first, and offsets count those.
  /// Any number of threads may call, each with a memory of its own.
  /// Errors: tokenizer_c5 a pattern that backtracks without an end, c6 a text above kMaxTextBytes (1 GiB),
  /// c7 a character that a model without an unknown token does not have.
  Result<Encoding> encode(std::string_view text, EncodeMemory& memory,
                          const EncodeOptions& options = {}) const;

  /// The text of ids; an id without a token adds nothing. Ids that end within a character end in U+FFFD.
  std::string decode(const std::vector<uint32_t>& ids, bool skip_special_tokens = true) const;

  std::optional<uint32_t> id_of(std::string_view token) const;
  /// The words of an id as decoding starts from them; none for an id without a token.
  std::optional<std::string_view> token_of(uint32_t id) const;
  size_t vocabulary_size() const;  ///< with added tokens
  const NotApplied& not_applied() const;
  /// A text is its tokens' bytes, one after the other.
  bool decodes_bytes() const;
  bool is_special(uint32_t id) const;

 private:
  struct Parts;
  std::shared_ptr<const Parts> parts_;
};

/// Reads a tokenizer.json, or the one in a folder.
Result<Tokenizer> read_tokenizer(const FileSystem& files, const std::string& path);

}  // namespace tandem::text
