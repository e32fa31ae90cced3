#include "verify/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "verify/philox.h"

namespace tandem {
namespace {

struct Range {
  std::string_view name;
  double value, least, most;
};

/// Logits with the penalty, in double; each token once however often it was seen.
Result<std::vector<double>> penalised(std::span<const float> logits, std::span<const int32_t> seen,
                                      double penalty) {
  std::vector<double> values(logits.begin(), logits.end());
  for (const int32_t id : seen) {
    if (id < 0 || static_cast<size_t>(id) >= logits.size())
      return usage("sampling_c3", "token {} was seen, and there are {} logits", id, logits.size());
    const double logit = logits[static_cast<size_t>(id)];
    values[static_cast<size_t>(id)] = logit > 0 ? logit / penalty : logit * penalty;
  }
  return values;
}

/// Most likely first, the lowest id first among equals.
std::vector<int32_t> by_likelihood(const std::vector<double>& values) {
  std::vector<int32_t> order(values.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  std::ranges::stable_sort(order, [&](int32_t a, int32_t b) {
    return values[static_cast<size_t>(a)] > values[static_cast<size_t>(b)];
  });
  return order;
}

/// How many of the most likely tokens stay.
size_t kept(const std::vector<double>& weights, const SamplingOptions& options) {
  size_t count = weights.size();
  if (options.top_k > 0) count = std::min<uint64_t>(count, options.top_k);
  double total = 0;
  for (size_t i = 0; i < count; ++i) total += weights[i];
  double before = 0;
  size_t nucleus = 0;
  while (nucleus < count && (nucleus == 0 || before < options.top_p * total)) before += weights[nucleus++];
  count = options.top_p < 1 ? nucleus : count;
  while (count > 1 && weights[count - 1] < options.min_p * weights[0]) --count;
  while (count > 1 && weights[count - 1] == 0) --count;
  return count;
}

}  // namespace

Status check(const SamplingOptions& options) {
  constexpr double kTiny = std::numeric_limits<double>::min(), kLarge = 1e6;
  const Range ranges[] = {{"temperature", options.temperature, 0, kLarge},
                          {"top_p", options.top_p, kTiny, 1},
                          {"min_p", options.min_p, 0, 1},
                          {"repetition_penalty", options.repetition_penalty, 1e-6, kLarge}};
  for (const Range& range : ranges)
    if (!(range.value >= range.least && range.value <= range.most))
      return usage("sampling_c1", "{} is {}, expected {}{} to {}", range.name, range.value,
                   range.least == kTiny ? "above " : "", range.least == kTiny ? 0 : range.least, range.most);
  return {};
}

Result<std::vector<Candidate>> candidates(std::span<const float> logits, std::span<const int32_t> seen,
                                          const SamplingOptions& options) {
  if (logits.empty()) return usage("sampling_c3", "there are no logits");
  if (std::ranges::any_of(logits, [](float logit) { return std::isnan(logit); }))
    return not_equal("sampling_c2", "the logits hold NaN");
  TANDEM_TRY(const std::vector<double> values, penalised(logits, seen, options.repetition_penalty));
  const std::vector<int32_t> order = by_likelihood(values);
  const double largest = values[static_cast<size_t>(order[0])];
  if (!std::isfinite(largest)) return not_equal("sampling_c2", "the largest logit is {}", largest);
  if (options.temperature == 0) return std::vector<Candidate>{{order[0], 1}};
  std::vector<double> weights;
  for (const int32_t id : order)
    weights.push_back(std::exp((values[static_cast<size_t>(id)] - largest) / options.temperature));
  std::vector<Candidate> found;
  for (size_t i = 0, count = kept(weights, options); i < count; ++i) found.push_back({order[i], weights[i]});
  std::ranges::sort(found, {}, &Candidate::id);
  double total = 0;
  for (const Candidate& candidate : found) total += candidate.probability;
  for (Candidate& candidate : found) candidate.probability /= total;
  return found;
}

Result<int32_t> sample_token(std::span<const float> logits, std::span<const int32_t> seen,
                             const SamplingOptions& options, uint64_t row, uint64_t step) {
  TANDEM_TRY(const std::vector<Candidate> found, candidates(logits, seen, options));
  const double drawn = uniform(options.seed, row, step);
  double sum = 0;
  for (const Candidate& candidate : found) {
    sum += candidate.probability;
    if (drawn < sum) return candidate.id;
  }
  return found.back().id;  // the sum was rounded to below 1
}

}  // namespace tandem
