#include "generate/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "generate/philox.h"

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

/// The cuts of top_k, top_p and min_p, in that order, on candidates with weights in place of probabilities.
/// Most likely means first by logit, the lowest id first among equals.
void cut(std::vector<Candidate>& found, const std::vector<double>& logits, const SamplingOptions& options) {
  const auto more_likely = [&](const Candidate& a, const Candidate& b) {
    const double x = logits[static_cast<size_t>(a.id)], y = logits[static_cast<size_t>(b.id)];
    return x > y || (x == y && a.id < b.id);
  };
  if (options.top_k > 0 && options.top_k < found.size()) {
    const auto end = found.begin() + static_cast<std::ptrdiff_t>(options.top_k);
    std::nth_element(found.begin(), end, found.end(), more_likely);
    found.erase(end, found.end());
  }
  if (options.top_p < 1) {
    std::ranges::sort(found, more_likely);
    double total = 0, before = 0;
    for (const Candidate& candidate : found) total += candidate.probability;
    size_t count = 0;
    while (count < found.size() && (count == 0 || before < options.top_p * total))
      before += found[count++].probability;
    found.resize(count);
  }
  std::erase_if(found,
                [&](const Candidate& c) { return c.probability < options.min_p; });  // of the largest, 1
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
  const auto best = std::ranges::max_element(values);
  if (!std::isfinite(*best)) return not_equal("sampling_c2", "the largest logit is {}", *best);
  if (options.temperature == 0)
    return std::vector<Candidate>{{static_cast<int32_t>(best - values.begin()), 1}};
  std::vector<Candidate> found;
  for (size_t i = 0; i < values.size(); ++i) {
    const double weight = std::exp((values[i] - *best) / options.temperature);
    if (weight > 0) found.push_back({static_cast<int32_t>(i), weight});
  }
  cut(found, values, options);
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
