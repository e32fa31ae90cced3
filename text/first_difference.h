#pragma once
// Two readings of one text.

#include "text/tokenizer.h"

namespace tandem::text {

/// Where two lists of ids part, in words: `position 0 is 1 "<s>" on the left and 29 "The" on the right`.
/// Empty if they are equal.
std::string first_difference(const Tokenizer& left, const std::vector<int32_t>& left_ids,
                             const Tokenizer& right, const std::vector<int32_t>& right_ids);

}  // namespace tandem::text
