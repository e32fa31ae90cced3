// Faults of norms: the epsilon, and gains that are stored as their distance from one.

#include <algorithm>

#include "faults/edits.h"
#include "faults/rows.h"

namespace tandem {
namespace {

/// What configs and frameworks have as defaults. An epsilon must be above 0: 1e-30 stands for none.
constexpr double kUsual[] = {1e-6, 1e-5, 1e-3, 1e-8, 1e-12, 1e-7, 1e-30};

Hypothesis with_epsilon(const FaultSite& site, double epsilon) {
  return {{},
          fmt::format("epsilon {} where the reference has {}", epsilon == 1e-30 ? 0.0 : epsilon,
                      float_attribute(site.node, "epsilon")),
          set_attributes(site.node.outputs[0], {{"epsilon", epsilon}}),
          {}};
}

Hypotheses usual_epsilon(const FaultSite& site) {
  if (site.node.op != "rms_norm") return {};
  Hypotheses found;
  for (const double epsilon : kUsual)
    if (epsilon != float_attribute(site.node, "epsilon")) found.push_back(with_epsilon(site, epsilon));
  return found;
}

Hypotheses epsilon_of_another_norm(const FaultSite& site) {
  if (site.node.op != "rms_norm") return {};
  std::vector<double> seen{float_attribute(site.node, "epsilon")};
  Hypotheses found;
  const auto visit = [&](const Block& block) {
    for (const Node& node : block.nodes) {
      if (node.op != "rms_norm") continue;
      const double epsilon = float_attribute(node, "epsilon");
      if (std::ranges::find(seen, epsilon) != seen.end()) continue;
      seen.push_back(epsilon);
      found.push_back(with_epsilon(site, epsilon));
      found.back().words += ": that of another norm";
    }
  };
  std::ranges::for_each(site.contract.blocks, visit);
  std::ranges::for_each(site.contract.entries, visit);
  return found;
}

Hypotheses gain_shifted(const FaultSite& site, float by, const char* words) {
  const WeightEntry* gain = site.node.op == "rms_norm" ? weight_at(site, site.node.inputs[1]) : nullptr;
  if (!gain) return {};
  return {{{}, words, {}, {edit_mapped(*gain, [by](float x, size_t) { return x + by; })}}};
}
Hypotheses gain_plus_one(const FaultSite& site) { return gain_shifted(site, 1, "gain is 1 + weight"); }
Hypotheses gain_minus_one(const FaultSite& site) { return gain_shifted(site, -1, "gain is weight - 1"); }

constexpr FaultRow kRows[] = {
    {"epsilon.usual", "epsilon", "A norm has another usual epsilon than the config says", usual_epsilon},
    {"epsilon.other_norm", "epsilon", "A norm has the epsilon of another norm of the model",
     epsilon_of_another_norm},
    {"norm_gain.plus_one", "norm gain + 1", "A norm multiplies by 1 + weight where the model has the weight",
     gain_plus_one},
    {"norm_gain.minus_one", "norm gain + 1", "A norm's weight was stored as its distance from one",
     gain_minus_one},
};

}  // namespace

std::span<const FaultRow> norm_faults() { return kRows; }

}  // namespace tandem
