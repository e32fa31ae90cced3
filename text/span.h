#pragma once
// A half-open range of positions; what they count (bytes, characters, tokens) is said where one is used.

#include <cstdint>

namespace tandem::text {

struct Span {
  uint32_t begin = 0;
  uint32_t end = 0;
  bool operator==(const Span&) const = default;
};

}  // namespace tandem::text
