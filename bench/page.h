#pragma once
// A benchmark as one page that needs nothing but itself, as those of verify (verify/report.h).

#include <string>

#include "base/json.h"

namespace tandem {

/// The page of to_json(InferReport): tables in plain HTML, and two charts: speeds as ratios with their
/// intervals, and a roofline (Williams, Waterman, Patterson 2009) with a point for each contender and
/// scenario. Names in it may be hostile: they stay text.
std::string bench_page(const Json& report);

}  // namespace tandem
