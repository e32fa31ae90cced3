#pragma once
// How alike two tensor names are: for guesses between tensors of equal values, never for more.

#include <cstdint>
#include <string_view>

namespace tandem::kinship {

/// Twice the words that both names have, over all their words: 0 to 1. Words are runs of letters or digits.
double likeness(std::string_view a, std::string_view b);

}  // namespace tandem::kinship
