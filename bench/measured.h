#pragma once
// One piece of work in a process of its own: how long it took, and the most memory it had.

#include <cstdint>
#include <functional>

#include "base/result.h"

namespace tandem {

struct Measured {
  double seconds = 0;
  uint64_t peak_bytes = 0;  ///< resident, of that process
};

/// Runs `work` in a child process, which ends with it. Seconds are the child's own, from begin to end of
/// `work`, or what `work` returned if that is above 0 (a program that knows better). Errors: those of `work`,
/// but for a byte offset; unavailable, the child died or could not be made.
Result<Measured> measure_in_child(const std::function<Result<double>()>& work);

}  // namespace tandem
