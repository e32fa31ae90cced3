#pragma once
// Strict JSON: duplicate keys, deep nesting and trailing bytes are errors, numbers keep what was written.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tandem {

using Json = nlohmann::ordered_json;  ///< keys keep the order in which they were written

struct JsonLimits {
  int max_depth = 32;
  size_t max_bytes = 100'000'000;
  bool large_integers =
      false;  ///< those beyond 64 bits become floats, as model_max_length in tokenizer_config.json
};

/// Parses one JSON document.
/// Errors: json_c1 syntax, with byte offset; json_c2 nested deeper than max_depth; json_c3 a key twice in one
/// object (also when spelled with different escapes); json_c4 longer than max_bytes; json_c5 bytes before or
/// after (BOM, garbage).
Result<Json> parse_json(std::string_view text, const JsonLimits& limits = {});

}  // namespace tandem
