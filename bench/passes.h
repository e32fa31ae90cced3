#pragma once
// Threads that do the same short piece of work at once, many times over.

#include <functional>
#include <vector>

#include "base/result.h"

namespace tandem {

struct PassOptions {
  int threads = 1;
  double seconds = 0.5;  ///< passes go on for that long,
  int at_least = 10;     ///< and for that many
};

/// What passes came to, in units a second.
struct Rate {
  double best = 0;    ///< of a pass that nothing disturbed, if there was one
  double median = 0;  ///< far below the best: the machine was doing other things
  size_t passes = 0;
};

/// The processors that this process may run on, one of each core before a second one of any.
std::vector<int> processors_by_core();

/// Runs `prepare(thread)` once on each thread, then `work(thread, pass)` on all of them again and again; they
/// begin each pass together. `units` is what all threads do in a pass, whose seconds are those from the first
/// thread's begin to the last one's end. Each thread is bound to a processor of its own: on a machine with
/// something else to do the scheduler leaves two threads on one for seconds, and a limit would come out as
/// half of what it is. Errors: unavailable, stopped by a signal.
Result<Rate> rate_of_passes(const PassOptions& options, double units, const std::function<void(int)>& prepare,
                            const std::function<void(int, size_t)>& work);

}  // namespace tandem
