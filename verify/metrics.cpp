#include "verify/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tandem {
namespace {

/// log(sum(exp(row))), without overflow.
double log_sum_exp(std::span<const float> row) {
  const double largest_value = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (const float value : row) sum += std::exp(value - largest_value);
  return largest_value + std::log(sum);
}

double kl(std::span<const float> reference, double p_norm, std::span<const float> other, double q_norm) {
  double sum = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    const double log_p = reference[i] - p_norm, log_q = other[i] - q_norm;
    sum += std::exp(log_p) * (log_p - log_q);
  }
  return std::max(sum, 0.0);  // rounding may leave a tiny negative sum
}

void add_values(Metrics& metrics, std::span<const float> reference, std::span<const float> other) {
  for (size_t i = 0; i < reference.size(); ++i) {
    const double a = reference[i], b = other[i], error = std::abs(a - b);
    metrics.max_abs_error = std::max(metrics.max_abs_error, error);
    metrics.sum_abs_error += error;
    metrics.sum_squared_error += error * error;
    metrics.sum_squares += a * a;
    metrics.sum_squares_other += b * b;
    metrics.sum_products += a * b;
  }
}

/// Divergence and loss: both want the logarithm of the softmax's sum.
void add_likelihoods(Metrics& metrics, std::span<const float> reference, std::span<const float> other,
                     int32_t label) {
  const double p_norm = log_sum_exp(reference), q_norm = log_sum_exp(other);
  const double divergence = kl(reference, p_norm, other, q_norm);
  metrics.max_kl = std::max(metrics.max_kl, divergence);
  metrics.sum_kl += divergence;
  if (label < 0 || static_cast<size_t>(label) >= reference.size()) return;
  ++metrics.labels;
  metrics.sum_loss += p_norm - reference[label];
  metrics.sum_loss_other += q_norm - other[label];
}

bool same_set(std::span<const uint32_t> a, std::span<const uint32_t> b) {
  return std::is_permutation(a.begin(), a.end(), b.begin(), b.end());
}

/// How far the best value is above the second; infinity for a row of one.
double gap_at_top(std::span<const float> row, std::span<const uint32_t> best) {
  return best.size() < 2 ? std::numeric_limits<double>::infinity()
                         : static_cast<double>(row[best[0]]) - row[best[1]];
}

void add_best(Metrics& metrics, std::span<const float> reference, std::span<const float> other,
              double top1_gap) {
  const std::vector<uint32_t> best = largest(reference, kTopK.back());
  const std::vector<uint32_t> best_other = largest(other, kTopK.back());
  for (size_t i = 0; i < kTopK.size(); ++i) {
    const size_t k = std::min<size_t>(kTopK[i], best.size());
    metrics.top_k_same[i] += same_set(std::span(best).first(k), std::span(best_other).first(k));
  }
  const bool same = best[0] == best_other[0];
  metrics.top1_same += same;
  if (gap_at_top(reference, best) <= top1_gap) return;
  ++metrics.decided;
  metrics.decided_same += same;
}

double mean(double sum, uint64_t count) { return count ? sum / static_cast<double>(count) : 0; }

}  // namespace

double Metrics::rms() const { return std::sqrt(mean(sum_squares, compared - not_finite)); }

double Metrics::rms_error() const { return std::sqrt(mean(sum_squared_error, compared - not_finite)); }

double Metrics::nmse() const {
  if (sum_squared_error == 0) return 0;
  return sum_squares > 0 ? sum_squared_error / sum_squares : std::numeric_limits<double>::infinity();
}

double Metrics::cosine() const {
  if (sum_squares == 0 || sum_squares_other == 0) return sum_squares == sum_squares_other;
  return sum_products / (std::sqrt(sum_squares) * std::sqrt(sum_squares_other));
}

double Metrics::loss() const { return mean(sum_loss, labels); }

double Metrics::loss_other() const { return mean(sum_loss_other, labels); }

Metrics& Metrics::operator+=(const Metrics& other) {
  tokens += other.tokens;
  compared += other.compared;
  not_finite += other.not_finite;
  max_abs_error = std::max(max_abs_error, other.max_abs_error);
  sum_abs_error += other.sum_abs_error;
  sum_squared_error += other.sum_squared_error;
  sum_squares += other.sum_squares;
  sum_squares_other += other.sum_squares_other;
  sum_products += other.sum_products;
  max_kl = std::max(max_kl, other.max_kl);
  sum_kl += other.sum_kl;
  top1_same += other.top1_same;
  decided += other.decided;
  decided_same += other.decided_same;
  for (size_t i = 0; i < kTopK.size(); ++i) top_k_same[i] += other.top_k_same[i];
  labels += other.labels;
  sum_loss += other.sum_loss;
  sum_loss_other += other.sum_loss_other;
  return *this;
}

void add_row(Metrics& metrics, std::span<const float> reference, std::span<const float> other,
             double top1_gap, int32_t label) {
  ++metrics.tokens;
  metrics.compared += reference.size();
  if (!all_finite(reference) || !all_finite(other)) {
    metrics.not_finite += reference.size();
    return;
  }
  add_values(metrics, reference, other);
  add_likelihoods(metrics, reference, other, label);
  add_best(metrics, reference, other, top1_gap);
}

std::vector<uint32_t> largest(std::span<const float> row, size_t count) {
  std::vector<uint32_t> best;
  const auto comes_before = [&](float value, uint32_t id) { return value > row[id]; };
  for (uint32_t id = 0; id < row.size(); ++id) {
    if (best.size() == count && !(count > 0 && row[id] > row[best.back()])) continue;
    best.insert(std::upper_bound(best.begin(), best.end(), row[id], comes_before), id);
    if (best.size() > count) best.pop_back();
  }
  return best;
}

bool all_finite(std::span<const float> row) {
  return std::all_of(row.begin(), row.end(), [](float value) { return std::isfinite(value); });
}

double row_error(std::span<const float> reference, std::span<const float> other) {
  if (!all_finite(reference) || !all_finite(other)) return std::numeric_limits<double>::infinity();
  double error = 0;
  for (size_t i = 0; i < reference.size(); ++i)
    error = std::max(error, std::abs(static_cast<double>(reference[i]) - other[i]));
  return error;
}

}  // namespace tandem
