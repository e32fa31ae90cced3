#pragma once
// How far apart two sets of logits are.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace tandem {

/// The sizes of the sets of most likely ids that are compared, besides the most likely id itself.
inline constexpr std::array<uint64_t, 2> kTopK{5, 10};
/// The label of a token that has none, as in PyTorch's cross entropy.
inline constexpr int32_t kIgnoredLabel = -100;

/// What was measured over all compared tokens. Sums are kept so that rows can be added one by one.
struct Metrics {
  uint64_t tokens = 0;       ///< rows compared
  uint64_t compared = 0;     ///< values compared
  uint64_t not_finite = 0;   ///< values that are NaN or infinite on either side: never equal to anything
  double max_abs_error = 0;  ///< over finite values
  double sum_abs_error = 0;
  double sum_squared_error = 0;
  double sum_squares = 0;        ///< of the reference
  double sum_squares_other = 0;  ///< of the other side
  double sum_products = 0;       ///< of both sides' values
  double max_kl = 0;  ///< KL(reference || other) of one token's distribution, in nats, computed in float64
  double sum_kl = 0;
  uint64_t top1_same = 0;  ///< tokens whose most likely id is the same
  uint64_t decided = 0;    ///< tokens where the reference's two best ids are further apart than the gap
  uint64_t decided_same = 0;
  std::array<uint64_t, kTopK.size()> top_k_same{};  ///< tokens whose sets of the k best ids are equal
  uint64_t labels = 0;                              ///< tokens with a label
  double sum_loss = 0;                              ///< cross entropy of the reference, in nats
  double sum_loss_other = 0;

  double mean_abs_error() const { return compared ? sum_abs_error / static_cast<double>(compared) : 0; }
  double rms() const;         ///< of the reference's values
  double rms_error() const;   ///< root of the mean squared error
  double nmse() const;        ///< squared error over squares of the reference; infinity over zeros
  double cosine() const;      ///< of all values as two vectors; of two zero vectors 1, of one 0
  double loss() const;        ///< mean over tokens with a label, as PyTorch's; 0 where there are none
  double loss_other() const;  ///< as loss, of the other side
  double loss_difference() const { return loss_other() - loss(); }
  /// Share of tokens whose sets of the kTopK[i] best ids are equal.
  double top_k_agreement(size_t i) const {
    return tokens ? static_cast<double>(top_k_same[i]) / static_cast<double>(tokens) : 0;
  }
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
/// finite counts as compared and not_finite, and adds nothing to the other measures. All sums are float64.
/// `label` is the id that follows, for the loss -log softmax(row)[label]; outside the row it is ignored.
void add_row(Metrics& metrics, std::span<const float> reference, std::span<const float> other,
             double top1_gap, int32_t label = kIgnoredLabel);

/// The ids of the `count` largest values (all, if there are fewer), best first; of equals the lowest first.
std::vector<uint32_t> largest(std::span<const float> row, size_t count);

bool all_finite(std::span<const float> row);

/// The largest absolute difference of one row; infinity if a value is not finite.
double row_error(std::span<const float> reference, std::span<const float> other);

}  // namespace tandem
