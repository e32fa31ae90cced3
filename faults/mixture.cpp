// Faults of mixtures: the order of experts, and the rule that chooses and weighs them.

#include <algorithm>
#include <set>

#include "faults/edits.h"
#include "faults/rows.h"

namespace tandem {
namespace {

// ---- The order of experts.

/// Kernels of one projection, whose experts run through its chunks.
std::vector<const WeightEntry*> stacks(const FaultSite& site, size_t part) {
  const auto chunks = static_cast<size_t>(int_attribute(site.node, "chunks"));
  std::vector<const WeightEntry*> found;
  for (size_t chunk = 0; chunk < chunks; ++chunk)
    found.push_back(weight_at(site, site.node.inputs[3 + part * chunks + chunk]));
  return found;
}

uint64_t count_experts(const std::vector<const WeightEntry*>& chunks) {
  uint64_t count = 0;
  for (const WeightEntry* chunk : chunks) count += chunk->shape[0];
  return count;
}

/// The experts [begin, ...) of all chunks in another order, as one chunk.
HostTensor regrouped(std::span<const HostTensor> chunks, const std::vector<uint64_t>& order, uint64_t begin,
                     const Shape& shape) {
  HostTensor out{chunks[0].dtype, shape, {}};
  for (uint64_t i = 0; i < shape[0]; ++i) {
    uint64_t expert = order[begin + i];
    size_t chunk = 0;
    while (expert >= chunks[chunk].shape[0]) expert -= chunks[chunk++].shape[0];
    const size_t size = chunks[chunk].data.size() / chunks[chunk].shape[0];
    const auto first = chunks[chunk].data.begin() + static_cast<int64_t>(expert * size);
    out.data.insert(out.data.end(), first, first + static_cast<int64_t>(size));
  }
  return out;
}

void add_reordered(const std::vector<const WeightEntry*>& chunks, const std::vector<uint64_t>& order,
                   std::vector<WeightEdit>& edits) {
  std::vector<std::string> names;
  for (const WeightEntry* chunk : chunks) names.push_back(chunk->name);
  uint64_t begin = 0;
  for (const WeightEntry* chunk : chunks) {
    edits.push_back(
        {chunk->name, names, [order, begin, shape = chunk->shape](std::span<const HostTensor> sources) {
           return Result(regrouped(sources, order, begin, shape));
         }});
    begin += chunk->shape[0];
  }
}

Hypotheses reordered(const FaultSite& site, std::vector<uint64_t> (*order_of)(uint64_t), const char* words) {
  if (site.node.op != "experts") return {};
  const std::vector<uint64_t> order = order_of(count_experts(stacks(site, 0)));
  if (is_in_order(order)) return {};
  std::vector<WeightEdit> edits;
  for (size_t part = 0; part < 3; ++part) add_reordered(stacks(site, part), order, edits);
  return {{{}, words, {}, std::move(edits)}};
}

std::vector<uint64_t> text_order(uint64_t count) {
  std::vector<uint64_t> order = numbers_up_to(count);
  std::ranges::sort(order, {}, [](uint64_t n) { return std::to_string(n); });
  return order;
}
std::vector<uint64_t> reverse_order(uint64_t count) {
  std::vector<uint64_t> order = numbers_up_to(count);
  std::ranges::reverse(order);
  return order;
}
std::vector<uint64_t> rolled_order(uint64_t count) {
  std::vector<uint64_t> order = numbers_up_to(count);
  std::rotate(order.begin(), order.begin() + 1, order.end());  // clang 14 has no ranges::rotate
  return order;
}
std::vector<uint64_t> rolled_back(uint64_t count) {
  std::vector<uint64_t> order = numbers_up_to(count);
  std::rotate(order.begin(), order.end() - 1, order.end());
  return order;
}

Hypotheses rolled(const FaultSite& site) {
  Hypotheses found = reordered(site, rolled_order, "expert i is what expert i + 1 should be");
  for (Hypothesis& other : reordered(site, rolled_back, "expert i is what expert i - 1 should be"))
    found.push_back(std::move(other));
  return found;
}
Hypotheses reversed(const FaultSite& site) {
  return reordered(site, reverse_order, "the experts are in reverse order");
}
Hypotheses sorted_as_text(const FaultSite& site) {
  return reordered(site, text_order, "the experts are sorted as text: 0, 1, 10, 11, 2");
}

// ---- The routing rule.

bool is_route(const FaultSite& site) { return site.node.op == "route"; }

Hypothesis with_rule(const FaultSite& site, const Attributes& attributes, std::string words) {
  return {{}, std::move(words), set_attributes(site.node.outputs[0], attributes), {}};
}

Hypotheses scoring(const FaultSite& site) {
  if (!is_route(site)) return {};
  const std::string other = string_attribute(site.node, "scoring_func") == "softmax" ? "sigmoid" : "softmax";
  return {with_rule(site, {{"scoring_func", other}},
                    fmt::format("scores by {}, not {}", other, string_attribute(site.node, "scoring_func")))};
}

Hypotheses norm_topk_prob(const FaultSite& site) {
  if (!is_route(site)) return {};
  const bool own = bool_attribute(site.node, "norm_topk_prob");
  return {with_rule(site, {{"norm_topk_prob", !own}},
                    own ? "chosen weights are not divided by their sum"
                        : "chosen weights are divided by their sum (norm_topk_prob)")};
}

Hypotheses groups_ignored(const FaultSite& site) {
  if (!is_route(site) || int_attribute(site.node, "topk_group") == int_attribute(site.node, "n_group"))
    return {};
  return {with_rule(site, {{"n_group", int64_t{1}}, {"topk_group", int64_t{1}}},
                    "groups are ignored: the best of all experts are chosen")};
}

Hypotheses topk_group(const FaultSite& site) {
  if (!is_route(site)) return {};
  const int64_t groups = int_attribute(site.node, "n_group"), own = int_attribute(site.node, "topk_group");
  const auto experts = static_cast<int64_t>(weight_at(site, site.node.inputs[2])->shape[0]);
  Hypotheses found;
  std::set<int64_t> seen{own};
  for (const int64_t other : {own + 1, own - 1, groups}) {
    const bool possible =
        other >= 1 && other <= groups && int_attribute(site.node, "top_k") <= experts / groups * other;
    if (!possible || !seen.insert(other).second) continue;
    found.push_back(with_rule(site, {{"topk_group", other}},
                              fmt::format("topk_group {} where the reference has {}", other, own)));
  }
  return found;
}

Hypotheses bias_in_weights(const FaultSite& site) {
  if (!is_route(site)) return {};
  const bool own =
      find_attribute(site.node, "bias_in_weights") && bool_attribute(site.node, "bias_in_weights");
  return {with_rule(
      site, {{"bias_in_weights", !own}},
      own ? "the correction bias is not in the weights" : "the correction bias chooses and weighs, too")};
}

Hypotheses bias_ignored(const FaultSite& site) {
  if (!is_route(site)) return {};
  const WeightEntry* bias = weight_at(site, site.node.inputs[2]);
  return {{{}, "the correction bias is ignored in the choice", {}, {edit_mapped(*bias, [](float, size_t) {
             return 0.0f;
           })}}};
}

constexpr FaultRow kRows[] = {
    {"experts.text_order", "expert order", "The experts are sorted as text: 0, 1, 10, 11, 2", sorted_as_text},
    {"experts.rolled", "expert order", "The experts are off by one", rolled},
    {"experts.reversed", "expert order", "The experts are in reverse order", reversed},
    {"routing.scoring", "routing rule", "Scores by softmax for sigmoid, or the other way", scoring},
    {"routing.norm_topk_prob", "routing rule", "Chosen weights are not normalised though asked, or are",
     norm_topk_prob},
    {"routing.groups_ignored", "routing rule", "The best of all experts are chosen, whatever their group",
     groups_ignored},
    {"routing.topk_group", "routing rule", "Another number of groups stays in the choice", topk_group},
    {"routing.bias_in_weights", "routing rule",
     "The correction bias is in the weights, not in the choice alone", bias_in_weights},
    {"routing.bias_ignored", "routing rule", "The correction bias is ignored", bias_ignored},
};

}  // namespace

std::span<const FaultRow> mixture_faults() { return kRows; }

}  // namespace tandem
