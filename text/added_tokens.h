#pragma once
// "added_tokens" of a tokenizer.json: tokens that are found in a text before (or after) it is normalized, and
// that no later step touches.

#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "text/model.h"
#include "text/normalizer.h"
#include "text/pieces.h"
#include "text/trie.h"

namespace tandem::text {

struct AddedToken {
  uint32_t id = 0;
  std::string content;
  std::string matched;       ///< what is looked for: the content, normalized if `normalized`
  bool single_word = false;  ///< only where no word character is beside it
  bool lstrip = false;       ///< takes the white space on its left with it
  bool rstrip = false;       ///< and on its right
  bool normalized = false;   ///< looked for in the normalized text
  bool special = false;      ///< left out in decoding on request
};

class AddedTokens {
 public:
  /// Errors: tokenizer_c1 for keys; tokenizer_c9 for an id that differs from the model's, a token twice, an
  /// empty or too long one.
  static Result<AddedTokens> read(const Json* json, const Model& model, const Normalizer& normalizer);

  /// Cuts the text: tokens that are not normalized, then (what is left normalized) those that are.
  Status cut(const Normalizer& normalizer, Pieces& pieces) const;

  const AddedToken* by_id(uint32_t id) const;
  const std::vector<AddedToken>& all() const { return tokens_; }
  bool is_special(std::string_view content) const { return special_.contains(content); }

 private:
  Status add(const Json& json, const std::string& place, const Model& model, const Normalizer& normalizer);
  void cut_with(const Trie& trie, bool any, Pieces& pieces) const;
  void find(const Trie& trie, std::string_view text, std::vector<std::pair<Span, int64_t>>& parts) const;

  std::vector<AddedToken> tokens_;
  std::unordered_map<uint32_t, size_t> by_id_;
  std::set<std::string, std::less<>> special_;
  Trie plain_, normalized_;  ///< to indices of tokens_
  uint64_t next_id_ = 0;
  bool any_plain_ = false, any_normalized_ = false;
};

}  // namespace tandem::text
