#include "verify/tolerance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tandem {

const Tolerance& tolerance_of(DType lowest) {
  for (const Tolerance& tolerance : kTolerances)
    if (tolerance.dtype == lowest) return tolerance;
  return kTolerances[0];
}

double absolute_bar(const Tolerance& tolerance, double rms, double atol) {
  return atol > 0 ? atol : tolerance.max_abs_error * std::max(1.0, rms);
}

double loss_bar(const Tolerance& tolerance, double rms, double atol) {
  return std::isinf(atol) ? std::sqrt(2 * tolerance.max_kl) * std::max(1.0, rms)
                          : absolute_bar(tolerance, rms, atol);
}

std::vector<std::string> failures(const FromExact& d) {
  std::vector<std::string> lines;
  if (!(d.reference_max <= kReferenceShare * d.logits_rms))
    lines.push_back(
        fmt::format("contract and reference disagree: the reference is {:.3g} from the contract's float64, "
                    "at logits of rms {:.3g}",
                    d.reference_max, d.logits_rms));
  const double floor = kExactFloor * d.logits_rms;
  const auto check = [&](std::string_view what, double other, double reference) {
    const double bar = kExactFactor * std::max(reference, floor);
    if (!(other <= bar))
      lines.push_back(fmt::format("{} error from float64 is {:.3g}, above {:.3g}", what, other, bar));
  };
  check("largest", d.other_max, d.reference_max);
  check("rms", d.other_rms, d.reference_rms);
  return lines;
}

std::vector<std::string> failures(const Metrics& metrics, const Tolerance& tolerance, double atol) {
  std::vector<std::string> lines;
  const double factor = std::max(1.0, metrics.rms());
  const double bar = absolute_bar(tolerance, metrics.rms(), atol);
  if (metrics.compared == 0) lines.push_back("nothing was compared");
  if (metrics.not_finite)
    lines.push_back(fmt::format("{} logits in rows with NaN or infinity", metrics.not_finite));
  if (metrics.max_abs_error > bar)
    lines.push_back(fmt::format("max_abs_error {:.3g} is above {:.3g}", metrics.max_abs_error, bar));
  if ((atol <= 0 || std::isinf(atol)) && metrics.max_kl > tolerance.max_kl * factor * factor)
    lines.push_back(
        fmt::format("kl {:.3g} is above {:.3g}", metrics.max_kl, tolerance.max_kl * factor * factor));
  const double loss = std::abs(metrics.loss_difference()), most = loss_bar(tolerance, metrics.rms(), atol);
  if (!(loss <= most)) lines.push_back(fmt::format("loss differs by {:.3g}, above {:.3g}", loss, most));
  if (static_cast<double>(metrics.decided_same) < kTop1Share * static_cast<double>(metrics.decided))
    lines.push_back(fmt::format("top1 differs at {} of {} decided tokens",
                                metrics.decided - metrics.decided_same, metrics.decided));
  return lines;
}

}  // namespace tandem
