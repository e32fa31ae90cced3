#pragma once
// What a handful of timings say.

#include <span>

#include "base/json.h"

namespace tandem {

/// A median and where it may lie.
struct Interval {
  double median = 0, low = 0, high = 0;
};
Json to_json(const Interval& interval);

/// The median of some values, and its 95 % percentile-bootstrap interval (Efron 1979): 2000 resamples drawn
/// by a generator with a fixed seed, so that the same timings give the same interval. One value is its own
/// interval; none is all zero.
Interval median_interval(std::span<const double> values);

/// One value of each pair over the other: of timings that were made in turn, the ratio of neighbours, which
/// what else the machine does meanwhile changes least. Sizes must be equal.
Interval ratio_interval(std::span<const double> over, std::span<const double> under);

}  // namespace tandem
