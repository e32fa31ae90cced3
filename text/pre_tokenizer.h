#pragma once
// The pre-tokenizers of a tokenizer.json: each cuts pieces into smaller ones, which a model never joins
// again.

#include <functional>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/pieces.h"

namespace tandem::text {

struct PreTokenizer {
  std::vector<std::function<Status(Pieces&)>> steps;
  /// After the steps, each byte becomes a character of the byte alphabet. A model of bytes reads them as they
  /// are.
  bool to_bytes = false;
};

/// Runs the steps, and to_bytes too unless `bytes_stay`.
Status pre_tokenize(const PreTokenizer& pre_tokenizer, Pieces& pieces, bool bytes_stay);

/// Errors: as make_normalizer.
Result<PreTokenizer> make_pre_tokenizer(const Json& json, const std::string& place);
std::vector<std::string_view> pre_tokenizer_types();

/// Metaspace's keys, which its decoder has too.
struct Metaspace {
  char32_t replacement = 0x2581;
  enum class Prepend { first, never, always } prepend = Prepend::always;
  bool split = true;
};
class Fields;
Result<Metaspace> metaspace_of(Fields& fields);

}  // namespace tandem::text
