#include "bench/statistics.h"

#include <algorithm>
#include <cassert>
#include <random>
#include <vector>

namespace tandem {
namespace {

constexpr size_t kResamples = 2000;
constexpr double kOutside = 0.025;  // on either side of the interval

double median_of(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 != 0) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace

Json to_json(const Interval& interval) {
  return Json{{"median", interval.median}, {"low", interval.low}, {"high", interval.high}};
}

Interval median_interval(std::span<const double> values) {
  if (values.empty()) return {};
  std::vector<double> sample(values.begin(), values.end());
  Interval interval;
  interval.median = median_of(sample);
  std::mt19937_64 generator(1);  // its sequence is the same everywhere, that of distributions is not
  std::vector<double> medians(kResamples);
  for (double& median : medians) {
    for (double& value : sample) value = values[generator() % values.size()];
    median = median_of(sample);
  }
  std::sort(medians.begin(), medians.end());
  interval.low = medians[static_cast<size_t>(kOutside * kResamples)];
  interval.high = medians[static_cast<size_t>((1 - kOutside) * kResamples) - 1];
  return interval;
}

Interval ratio_interval(std::span<const double> over, std::span<const double> under) {
  assert(over.size() == under.size());
  std::vector<double> ratios;
  for (size_t i = 0; i < over.size(); ++i) ratios.push_back(over[i] / under[i]);
  return median_interval(ratios);
}

}  // namespace tandem
