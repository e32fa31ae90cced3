#pragma once
// Counts of values that numbers in a checkpoint rarely should be, taken from their bits.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace tandem {

/// Values that numbers rarely should be; bits are compared all the same.
struct OddValues {
  uint64_t nan = 0;
  uint64_t infinite = 0;
  uint64_t denormal = 0;  ///< not zero, and below the dtype's own smallest normal number
  bool operator==(const OddValues&) const = default;
  OddValues& operator+=(const OddValues& other);
};

/// Of row-major little-endian values of one dtype. All zero for dtypes that are not floating point.
OddValues odd_values(DType dtype, std::span<const std::byte> values);

}  // namespace tandem
