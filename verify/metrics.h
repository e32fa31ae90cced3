#pragma once
// How far apart two sets of logits are.

#include <cstdint>
#include <span>

namespace tandem {

/// What was measured over all compared tokens. Sums are kept so that rows can be added one by one.
struct Metrics {
  uint64_t tokens = 0;       ///< rows compared
  uint64_t compared = 0;     ///< values compared
  uint64_t not_finite = 0;   ///< values that are NaN or infinite on either side: never equal to anything
  double max_abs_error = 0;  ///< over finite values
  double sum_abs_error = 0;
  double sum_squares = 0;  ///< of the reference
  double max_kl = 0;  ///< KL(reference || other) of one token's distribution, in nats, computed in float64
  double sum_kl = 0;
  uint64_t top1_same = 0;  ///< tokens whose most likely id is the same
  uint64_t decided = 0;    ///< tokens where the reference's two best ids are further apart than the gap
  uint64_t decided_same = 0;

  double mean_abs_error() const { return compared ? sum_abs_error / static_cast<double>(compared) : 0; }
  double rms() const;  ///< of the reference's values
  double mean_kl() const { return tokens ? sum_kl / static_cast<double>(tokens) : 0; }
  double top1_agreement_raw() const {
    return tokens ? static_cast<double>(top1_same) / static_cast<double>(tokens) : 0;
  }
  /// Among decided tokens; 1 where none was.
  double top1_agreement() const {
    return decided ? static_cast<double>(decided_same) / static_cast<double>(decided) : 1;
  }
  Metrics& operator+=(const Metrics& other);
};

/// Adds one token: its logits on both sides, of equal and non-zero length. A row with a value that is not
/// finite counts as compared and not_finite, and adds nothing to the other measures.
void add_row(Metrics& metrics, std::span<const float> reference, std::span<const float> other,
             double top1_gap);

/// The largest absolute difference of one row; infinity if a value is not finite.
double row_error(std::span<const float> reference, std::span<const float> other);

}  // namespace tandem
