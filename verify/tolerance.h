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
  float routing_margin;  ///< an expert chosen by less may be another one without a fault: see compare_models
  double routing_share;  ///< of a probe's tokens that may hang on such a margin
  std::string_view reason;
};

inline constexpr Tolerance kTolerances[] = {
    {DType::f32, 1e-5, 1e-9, 2e-5, 1e-5f, 0.001,
     "float32 sums of a few thousand terms in another order; grows with the logits, since the error is "
     "relative"},
    {DType::f16, 2e-2, 1e-3, 4e-2, 4e-3f, 1,
     "weights or arithmetic with 11 bits: 2^-11 a rounding, some tens of them on the way"},
    {DType::bf16, 2e-1, 2e-2, 4e-1, 3e-2f, 1,
     "weights or arithmetic with 8 bits: 2^-8 a rounding, some tens of them on the way"},
};
/// The row of a dtype; wider types have float32's.
const Tolerance& tolerance_of(DType lowest);

/// Distances of both sides from the contract's float64, over the compared tokens of one probe.
struct FromExact {
  double reference_max = 0, reference_rms = 0;
  double other_max = 0, other_rms = 0;
  double logits_rms = 0;  ///< of the float64 logits
};
/// A side may be this much further from float64 than the reference itself is, in its largest and in its mean
/// square error.
inline constexpr double kExactFactor = 4;
/// Below this share of the logits' rms a distance is not told from rounding.
inline constexpr double kExactFloor = 0x1p-22;
/// The reference must itself lie this close to float64, as a share of the logits' rms; else contract and
/// reference disagree.
inline constexpr double kReferenceShare = 1e-3;
/// The same inside one layer, whose input is given: float32 with sums of a few thousand terms.
inline constexpr double kReferenceShareOfLayer = 1e-4;
/// Below this share of the tap's largest value a single distance is not told from rounding: two units in the
/// last place of that value.
inline constexpr double kLargestFloor = 0x1p-22;
/// The fixed bar of a tap holds as it stands where the values stay below this.
inline constexpr double kFixedBarRange = 8;
/// What did not hold, a line each; empty means that the other side is as exact as the reference.
std::vector<std::string> failures(const FromExact& distance);

/// What did not hold, a line each; empty means equal. `atol` (0: none) takes the place of the absolute bar;
/// infinity leaves only that bar out.
/// Comparing nothing, and any value that is not finite, always fail.
std::vector<std::string> failures(const Metrics& metrics, const Tolerance& tolerance, double atol);

/// The share of decided tokens whose most likely id must be the same.
inline constexpr double kTop1Share = 0.999;

/// The bar on the difference of the mean losses. One token's loss is log(sum(exp)) minus one logit, and no
/// logit is further off than the absolute bar; of the two terms' errors, which together may reach twice that
/// bar, the mean over tokens keeps only what leans to one side, so once the bar is a fault. Where that bar is
/// left out (`atol` infinite) the divergence bounds it: the mean of |log p/q| is at most KL + sqrt(2 KL)
/// (Pinsker), hence sqrt(2 max_kl) times the factor.
double loss_bar(const Tolerance& tolerance, double rms, double atol);

/// The absolute bar of one value, given the reference's rms.
double absolute_bar(const Tolerance& tolerance, double rms, double atol);

}  // namespace tandem
