#pragma once
// The post-processors of a tokenizer.json, for one text (not a pair): tokens around it, and offsets trimmed.

#include <functional>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/encoding.h"

namespace tandem::text {

struct PostProcessor {
  std::vector<std::function<void(Encoding&, bool add_special_tokens)>> steps;
  bool trims_offsets = false;  ///< a step looks at pieces and changes offsets
};

/// Errors: as make_normalizer.
Result<PostProcessor> make_post_processor(const Json& json, const std::string& place);
std::vector<std::string_view> post_processor_types();

}  // namespace tandem::text
