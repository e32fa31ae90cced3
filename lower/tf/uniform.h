#pragma once
// A loop's random numbers, from a counter and no state.

#include "lower/tf/lower_ops.h"

namespace tandem {

/// f64[batch], numbers of [0, 1): for each row the first 64 bits of Philox 4x32-10 (algorithm 1 of
/// StatelessRandomUniformFullIntV2) with the row's seed (i64[batch]) as key and {step, row} as counter, of
/// which docs/sampling.md makes the number. `step` is an i32 scalar.
Tensor uniform(FunctionBuilder& f, LowerContext& context, const Tensor& seeds, const std::string& step);

}  // namespace tandem
