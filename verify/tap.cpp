#include "verify/tap.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tandem {
namespace {

std::string plain(double value) { return fmt::format("{:.3g}", value); }

}  // namespace

Result<TapDistance> measure(const HostTensor& reference, const HostTensor& other, const HostTensor* exact,
                            const HostTensor* exact_of_other, const TokenMask& mask) {
  const HostTensor* others_exact = exact_of_other ? exact_of_other : exact;
  for (const HostTensor* tensor : {&other, exact, others_exact})
    if (tensor && tensor->shape != reference.shape)
      return not_equal("verify_c4", "one side has the shape {}, the other {}", to_string(reference.shape),
                       to_string(tensor->shape));
  const Shape& shape = reference.shape;
  if (shape.size() <= mask.token_axis || shape[0] != mask.batch || shape[mask.token_axis] != mask.tokens)
    return not_equal("verify_c4", "a tap has the shape {}, expected [{}, ..., {}, ...]", to_string(shape),
                     mask.batch, mask.tokens);
  TANDEM_TRY(const std::vector<double> a, doubles_of(reference));
  TANDEM_TRY(const std::vector<double> b, doubles_of(other));
  std::vector<double> e, f;
  if (exact) {
    TANDEM_TRY(e, doubles_of(*exact));
  }
  if (exact_of_other) {
    TANDEM_TRY(f, doubles_of(*exact_of_other));
  }
  const std::vector<double>& of_other = exact_of_other ? f : e;

  uint64_t inner = 1, outer = 1;
  for (size_t axis = mask.token_axis + 1; axis < shape.size(); ++axis) inner *= shape[axis];
  for (size_t axis = 1; axis < mask.token_axis; ++axis) outer *= shape[axis];
  TapDistance d;
  d.has_exact = exact != nullptr;
  double worst = -1;
  for (uint64_t i = 0; i < a.size(); ++i) {
    const uint64_t token = i / inner % mask.tokens, row = i / inner / mask.tokens / outer;
    if (!mask.mask[row * mask.tokens + token]) continue;
    ++d.values;
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) {
      ++d.not_finite;
      continue;
    }
    const double error = std::abs(a[i] - b[i]);
    d.max_abs = std::max(d.max_abs, std::abs(a[i]));
    d.max_abs_error = std::max(d.max_abs_error, error);
    d.rms_error += error * error;
    double own = error;
    if (exact) {
      const double reference_error = std::abs(a[i] - e[i]);
      own = std::abs(b[i] - of_other[i]);
      d.reference_max = std::max(d.reference_max, reference_error);
      d.reference_rms += reference_error * reference_error;
      d.other_max = std::max(d.other_max, own);
      d.other_rms += own * own;
      d.rms += e[i] * e[i];
    } else {
      d.rms += a[i] * a[i];
    }
    if (own > worst) {
      worst = own;
      d.worst_row = row;
      d.worst_token = token;
    }
  }
  const double count = static_cast<double>(std::max<uint64_t>(1, d.values - d.not_finite));
  for (double* sum : {&d.rms, &d.rms_error, &d.reference_rms, &d.other_rms}) *sum = std::sqrt(*sum / count);
  return d;
}

std::string_view name(Verdict verdict) {
  if (verdict == Verdict::equal) return "equal";
  return verdict == Verdict::different ? "different" : "contract and reference disagree";
}

TapVerdict judge(const TapDistance& d, const Tolerance& tolerance, Depth depth, const OverAll& over_all) {
  TapVerdict result;
  const auto different = [&](std::string line) {
    result.verdict = Verdict::different;
    result.failures.push_back(std::move(line));
  };
  const auto measure_by = [&](double figure, double bar) {
    const double share = figure == 0 ? 0 : figure / bar;  // a bar of 0 holds only for 0
    result.over_bar = std::max(result.over_bar, share);
  };
  if (d.values == 0 || d.not_finite) result.over_bar = HUGE_VAL;
  if (d.values == 0) different("nothing was compared");
  if (d.not_finite) different(fmt::format("{} of {} values are NaN or infinite", d.not_finite, d.values));
  if (!result.failures.empty()) return result;
  if (!d.has_exact) {
    const double bar = tolerance.max_abs_error * std::max(1.0, d.max_abs / kFixedBarRange);
    measure_by(d.max_abs_error, bar);
    if (!(d.max_abs_error <= bar))
      different(fmt::format("max error {}, at most {}", plain(d.max_abs_error), plain(bar)));
    return result;
  }
  const double share = depth == Depth::layer ? kReferenceShareOfLayer : kReferenceShare;
  if (!(d.reference_rms <= share * d.rms)) {
    result.verdict = Verdict::reference_disagrees;
    measure_by(d.reference_rms, share * d.rms);
    result.failures.push_back(
        fmt::format("contract and reference disagree: the reference is {} from the contract's float64 (RMS), "
                    "at most {} of the tap's RMS {}",
                    plain(d.reference_rms), plain(share), plain(d.rms)));
    return result;
  }
  const auto check = [&](const char* what, double other, double reference, double floor) {
    const double bar = std::max(kExactFactor * reference, floor);
    measure_by(other, bar);
    if (!(other <= bar))
      different(fmt::format("{} distance from float64 {}, at most {} ({} times the reference's {})", what,
                            plain(other), plain(bar), kExactFactor, plain(reference)));
  };
  check("largest", d.other_max, std::max(d.reference_max, over_all.reference_max),
        std::max(kExactFloor * d.rms, kLargestFloor * std::max({d.max_abs, over_all.max_abs, d.angle})));
  check("RMS", d.other_rms, std::max(d.reference_rms, over_all.reference_rms),
        kExactFloor * std::max(d.rms, d.angle));
  return result;
}

void add(TapResult& result, const std::string& probe, const TapDistance& distance) {
  const auto badness = [](const TapDistance& d) {
    if (d.not_finite) return HUGE_VAL;
    return d.has_exact ? d.other_rms / std::max(d.reference_rms, kExactFloor * d.rms) : d.rms_error;
  };
  if (result.values == 0 || badness(distance) > badness(result.worst)) {
    result.worst = distance;
    result.probe = probe;
  }
  result.values += distance.values;
  result.probes.emplace_back(probe, distance);
}

void finish(TapResult& result, const Tolerance& tolerance, Depth depth) {
  OverAll over_all;
  double squares = 0, values = 0;
  for (const auto& [probe, distance] : result.probes) {
    over_all.reference_max = std::max(over_all.reference_max, distance.reference_max);
    over_all.max_abs = std::max(over_all.max_abs, distance.max_abs);
    const double count = static_cast<double>(distance.values - distance.not_finite);
    squares += distance.reference_rms * distance.reference_rms * count;
    values += count;
  }
  over_all.reference_rms = std::sqrt(squares / std::max(1.0, values));
  for (const auto& [probe, distance] : result.probes) {
    const TapVerdict found = judge(distance, tolerance, depth, over_all);
    result.over_bar = std::max(result.over_bar.value_or(0), found.over_bar);
    result.verdict = std::max(result.verdict, found.verdict);
    for (const std::string& line : found.failures) result.failures.push_back(probe + ": " + line);
  }
}

TapResult missing_tap(std::string tap, std::string_view side) {
  TapResult result;
  result.verdict = Verdict::different;
  result.failures.push_back(fmt::format("{} is missing on the {} side", tap, side));
  result.tap = std::move(tap);
  return result;
}

Json to_json(const TapResult& result) {
  const TapDistance& d = result.worst;
  Json json{
      {"tap", result.tap},
      {"equal", result.equal()},
      {"hidden", result.hidden},
      {"verdict", name(result.verdict)},
      {"values", result.values},
      {"over_bar",
       std::isfinite(result.over_bar.value_or(HUGE_VAL)) ? Json(*result.over_bar) : Json(nullptr)},
      {"worst_probe", result.probe},
      {"worst_row", d.worst_row},
      {"worst_token", d.worst_token},
      {"rms", d.rms},
      {"max_abs", d.max_abs},
      {"max_abs_error", d.max_abs_error},
      {"rms_error", d.rms_error},
      {"fixed_bar_holds",
       d.max_abs < kFixedBarRange ? Json(d.max_abs_error <= kTolerances[0].max_abs_error) : Json(nullptr)},
      {"failures", result.failures}};
  json["from_float64"] = d.has_exact ? Json{{"reference_max", d.reference_max},
                                            {"reference_rms", d.reference_rms},
                                            {"other_max", d.other_max},
                                            {"other_rms", d.other_rms}}
                                     : Json(nullptr);
  return json;
}

}  // namespace tandem
