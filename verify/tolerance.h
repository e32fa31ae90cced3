#pragma once
// The one table of bars: what counts as equal, by the lowest precision that takes part, and why.

#include <string>
#include <vector>

#include "base/dtype.h"
#include "verify/metrics.h"

namespace tandem {

struct Tolerance {
  DType dtype;
  double max_abs_error;  ///< times max(1, rms of the reference's logits)
  double max_kl;         ///< nats, times the square of the same factor
  double top1_gap;       ///< a token is decided where the two best logits of the reference are further apart,
                         ///< times the same factor
  std::string_view reason;
};

inline constexpr Tolerance kTolerances[] = {
    {DType::f32, 1e-5, 1e-9, 2e-5,
     "float32 sums of a few thousand terms in another order; grows with the logits, since the error is "
     "relative"},
    {DType::f16, 2e-2, 1e-3, 4e-2,
     "weights or arithmetic with 11 bits: 2^-11 a rounding, some tens of them on the way"},
    {DType::bf16, 2e-1, 2e-2, 4e-1,
     "weights or arithmetic with 8 bits: 2^-8 a rounding, some tens of them on the way"},
};
/// The row of a dtype; wider types have float32's.
const Tolerance& tolerance_of(DType lowest);

/// What did not hold, a line each; empty means equal. `atol` (0: none) takes the place of the absolute bar.
/// Comparing nothing, and any value that is not finite, always fail.
std::vector<std::string> failures(const Metrics& metrics, const Tolerance& tolerance, double atol);

/// The absolute bar of one value, given the reference's rms.
double absolute_bar(const Tolerance& tolerance, double rms, double atol);

}  // namespace tandem
