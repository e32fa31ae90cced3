#pragma once
// What a text becomes.

#include <cstdint>
#include <string>
#include <vector>

#include "text/span.h"

namespace tandem::text {

struct Encoding {
  std::vector<uint32_t> ids;
  // Of each id, and filled in only when asked for:
  std::vector<std::string>
      pieces;  ///< the vocabulary's words; what was found in the text for an added or unknown token
  std::vector<Span> offsets;  ///< characters of the text; {0, 0} for tokens that were put around it
  std::vector<bool> special;  ///< put around the text by the post-processor
};

}  // namespace tandem::text
