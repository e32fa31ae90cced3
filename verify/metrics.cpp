#include "verify/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tandem {
namespace {

bool finite(std::span<const float> row) {
  return std::all_of(row.begin(), row.end(), [](float value) { return std::isfinite(value); });
}

size_t argmax(std::span<const float> row) { return std::max_element(row.begin(), row.end()) - row.begin(); }

/// log(sum(exp(row))), without overflow.
double log_sum_exp(std::span<const float> row) {
  const double largest = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (const float value : row) sum += std::exp(value - largest);
  return largest + std::log(sum);
}

double kl(std::span<const float> reference, std::span<const float> other) {
  const double p_norm = log_sum_exp(reference), q_norm = log_sum_exp(other);
  double sum = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    const double log_p = reference[i] - p_norm, log_q = other[i] - q_norm;
    sum += std::exp(log_p) * (log_p - log_q);
  }
  return std::max(sum, 0.0);  // rounding may leave a tiny negative sum
}

/// How far the best value is above the second; infinity for a row of one.
double gap_at_top(std::span<const float> row, size_t best) {
  double second = -std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < row.size(); ++i)
    if (i != best) second = std::max(second, static_cast<double>(row[i]));
  return row[best] - second;
}

void add_top1(Metrics& metrics, std::span<const float> reference, std::span<const float> other,
              double top1_gap) {
  const size_t best = argmax(reference);
  const bool same = best == argmax(other);
  metrics.top1_same += same;
  if (gap_at_top(reference, best) <= top1_gap) return;
  ++metrics.decided;
  metrics.decided_same += same;
}

}  // namespace

double Metrics::rms() const {
  const uint64_t finite_values = compared - not_finite;
  return finite_values ? std::sqrt(sum_squares / static_cast<double>(finite_values)) : 0;
}

Metrics& Metrics::operator+=(const Metrics& other) {
  tokens += other.tokens;
  compared += other.compared;
  not_finite += other.not_finite;
  max_abs_error = std::max(max_abs_error, other.max_abs_error);
  sum_abs_error += other.sum_abs_error;
  sum_squares += other.sum_squares;
  max_kl = std::max(max_kl, other.max_kl);
  sum_kl += other.sum_kl;
  top1_same += other.top1_same;
  decided += other.decided;
  decided_same += other.decided_same;
  return *this;
}

void add_row(Metrics& metrics, std::span<const float> reference, std::span<const float> other,
             double top1_gap) {
  ++metrics.tokens;
  metrics.compared += reference.size();
  if (!finite(reference) || !finite(other)) {
    metrics.not_finite += reference.size();
    return;
  }
  for (size_t i = 0; i < reference.size(); ++i) {
    const double error = std::abs(static_cast<double>(reference[i]) - other[i]);
    metrics.max_abs_error = std::max(metrics.max_abs_error, error);
    metrics.sum_abs_error += error;
    metrics.sum_squares += static_cast<double>(reference[i]) * reference[i];
  }
  const double divergence = kl(reference, other);
  metrics.max_kl = std::max(metrics.max_kl, divergence);
  metrics.sum_kl += divergence;
  add_top1(metrics, reference, other, top1_gap);
}

double row_error(std::span<const float> reference, std::span<const float> other) {
  if (!finite(reference) || !finite(other)) return std::numeric_limits<double>::infinity();
  double error = 0;
  for (size_t i = 0; i < reference.size(); ++i)
    error = std::max(error, std::abs(static_cast<double>(reference[i]) - other[i]));
  return error;
}

}  // namespace tandem
