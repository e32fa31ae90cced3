// Faults that can be planted but are not among the causes tried: a diagnosis has to say "unknown".

#include <algorithm>
#include <cmath>
#include <cstring>

#include "faults/edits.h"
#include "faults/rows.h"

namespace tandem {
namespace {

Hypotheses doubled_residual(const FaultSite& site) {
  if (site.node.op != "add") return {};
  const std::string &out = site.node.outputs[0], twice = out + ".twice";
  const Operand stream = site.node.inputs[0];
  const Node node{"add", {stream, stream}, {}, {twice}, {}};
  return {{{},
           fmt::format("{} is added twice", stream.name),
           put_before(out, {node}, set_input(out, 0, {twice, false})),
           {}}};
}

Hypotheses wrong_row(const FaultSite& site) {
  if (site.node.op != "linear") return {};
  const Kernel kernel = kernel_of(site, site.node);
  if (kernel.out() < 2) return {};
  std::vector<uint64_t> order = numbers_up_to(kernel.out());
  const uint64_t row = kernel.out() / 2;
  order[row] = row - 1;
  return {{{},
           fmt::format("output {} of {} is a copy of output {}", row, kernel.weight->name, row - 1),
           {},
           {edit_taken(*kernel.weight, kernel.out_axis, order)}}};
}

Hypotheses zeroed_head(const FaultSite& site) {
  if (site.node.op != "linear") return {};
  const Node* merge = producer(site.block, site.node.inputs[0].name);
  if (!merge || merge->op != "merge_heads") return {};
  const Kernel kernel = kernel_of(site, site.node);
  const uint64_t heads = site.types.find(merge->inputs[0].name)->second.shape[1].size,
                 size = kernel.in() / heads;
  const uint64_t columns = kernel.weight->shape.back();
  const bool by_row = kernel.in_axis == 0;
  const auto map = [=](float x, size_t index) {
    const uint64_t channel = by_row ? index / columns : index % columns;
    return channel / size == heads - 1 ? 0.0f : x;
  };
  return {{{},
           fmt::format("head {} does not reach {}", heads - 1, kernel.weight->name),
           {},
           {edit_mapped(*kernel.weight, map)}}};
}

/// A fixed sequence of numbers in [-1, 1).
float noise(size_t index) {
  uint64_t state = (index + 1) * 0x9e3779b97f4a7c15u;
  state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u;
  state = (state ^ (state >> 27)) * 0x94d049bb133111ebu;
  return static_cast<float>(static_cast<double>(state >> 11) * 0x1p-52 - 1);
}

Hypotheses noisy_weight(const FaultSite& site) {
  if (site.node.op != "linear") return {};
  const WeightEntry* weight = weight_at(site, site.node.inputs[1]);
  const auto map = [](float x, size_t index) { return x * (1 + 0.05f * noise(index)); };
  return {{{}, fmt::format("{} is off by up to 5 %", weight->name), {}, {edit_mapped(*weight, map)}}};
}

Hypotheses lost_shard(const FaultSite& site) {
  if (site.node.op != "linear") return {};
  const Kernel kernel = kernel_of(site, site.node);
  if (kernel.out() < 2) return {};
  const uint64_t columns = kernel.weight->shape.back(), half = kernel.out() / 2;
  const bool by_row = kernel.out_axis == 0;
  const auto map = [=](float x, size_t index) {
    return (by_row ? index / columns : index % columns) < half ? x : 0.0f;
  };
  return {{{},
           fmt::format("the second half of {} is zero", kernel.weight->name),
           {},
           {edit_mapped(*kernel.weight, map)}}};
}

Hypotheses stale_mask_row(const FaultSite& site) {
  if (site.node.op != "attention") return {};
  const std::string &out = site.node.outputs[0], stale = out + ".stale_mask";
  const Node roll{"roll", {site.node.inputs[3]}, {{"axis", int64_t{0}}, {"shift", int64_t{1}}}, {stale}, {}};
  return {{{},
           "each row has the attention mask of the row before",
           put_before(out, {roll}, set_input(out, 3, {stale, false})),
           {}}};
}

// ---- Whole layers: nodes that call a block.

std::vector<const Node*> calls_like(const FaultSite& site) {
  std::vector<const Node*> found;
  for (const Node& node : site.block.nodes)
    if (node.op == "call" && string_attribute(node, "block") == string_attribute(site.node, "block"))
      found.push_back(&node);
  return found;
}

/// The layer at `to` gets the weights of the layer at `from`.
void add_layer(const FaultSite& site, const std::string& to, const std::string& from,
               std::vector<WeightEdit>& edits) {
  for (const Parameter& weight : find_block(site.contract, string_attribute(site.node, "block"))->weights) {
    const WeightEntry *a = find_weight(site.contract, full_name(to, weight.name)),
                      *b = find_weight(site.contract, full_name(from, weight.name));
    edits.push_back(edit_replaced(*a, *b));
  }
}

Hypotheses swapped_layers(const FaultSite& site) {
  if (site.node.op != "call") return {};
  const auto calls = calls_like(site);
  const auto next = std::ranges::find(calls, &site.node) + 1;
  if (next == calls.end()) return {};
  const std::string &here = string_attribute(site.node, "at"), &there = string_attribute(**next, "at");
  std::vector<WeightEdit> edits;
  add_layer(site, here, there, edits);
  add_layer(site, there, here, edits);
  return {{{}, fmt::format("{} and {} have each other's weights", here, there), {}, std::move(edits)}};
}

Hypotheses reversed_layers(const FaultSite& site) {
  if (site.node.op != "call") return {};
  const auto calls = calls_like(site);
  if (calls.size() < 2 || calls.front() != &site.node) return {};
  std::vector<WeightEdit> edits;
  for (size_t i = 0; i < calls.size(); ++i)
    if (const Node* other = calls[calls.size() - 1 - i]; other != calls[i])
      add_layer(site, string_attribute(*calls[i], "at"), string_attribute(*other, "at"), edits);
  return {{{},
           fmt::format("the layers {} to {} are in reverse order", string_attribute(*calls.front(), "at"),
                       string_attribute(*calls.back(), "at")),
           {},
           std::move(edits)}};
}

Hypotheses repeated_layer(const FaultSite& site) {
  if (site.node.op != "call") return {};
  const auto calls = calls_like(site);
  const auto own = std::ranges::find(calls, &site.node);
  if (own == calls.begin()) return {};
  const std::string &here = string_attribute(site.node, "at"), &before = string_attribute(**(own - 1), "at");
  std::vector<WeightEdit> edits;
  add_layer(site, here, before, edits);
  return {{{}, fmt::format("{} has the weights of {}", here, before), {}, std::move(edits)}};
}

Hypotheses swapped_norms(const FaultSite& site) {
  if (site.node.op != "rms_norm") return {};
  const WeightEntry* own = weight_at(site, site.node.inputs[1]);
  bool after = false;
  for (const Node& node : site.block.nodes) {
    after |= &node == &site.node;
    if (!after || &node == &site.node || node.op != "rms_norm") continue;
    const WeightEntry* other = weight_at(site, node.inputs[1]);
    if (own && other && own->shape == other->shape)
      return {
          {{}, fmt::format("{} and {} are swapped", own->name, other->name), {}, edit_swapped(*own, *other)}};
  }
  return {};
}

constexpr bool kPlantedOnly = false, kOnce = true;

constexpr FaultRow kRows[] = {
    {"other.doubled_residual", "unknown", "A residual connection adds its stream twice", doubled_residual,
     kPlantedOnly, kOnce},
    {"other.wrong_row", "unknown", "One row of a kernel is a copy of the row before", wrong_row, kPlantedOnly,
     kOnce},
    {"other.zeroed_head", "unknown", "The last head does not reach the output projection", zeroed_head,
     kPlantedOnly, kOnce},
    {"other.noisy_weight", "unknown", "A kernel is off by up to 5 %", noisy_weight, kPlantedOnly, kOnce},
    {"other.lost_shard", "unknown", "Half of a kernel's outputs are zero", lost_shard, kPlantedOnly, kOnce},
    {"other.stale_mask_row", "unknown", "Rows of a batch have the mask of the row before", stale_mask_row,
     kPlantedOnly, kOnce},
    {"other.swapped_layers", "unknown", "Two neighbouring layers have each other's weights", swapped_layers,
     kPlantedOnly, kOnce},
    {"other.reversed_layers", "unknown", "All layers of a kind are in reverse order", reversed_layers,
     kPlantedOnly, kOnce},
    {"other.repeated_layer", "unknown", "A layer has the weights of the layer before", repeated_layer,
     kPlantedOnly, kOnce},
    {"other.swapped_norms", "unknown", "Two norms of a layer have each other's gains", swapped_norms,
     kPlantedOnly, kOnce},
};

}  // namespace

std::span<const FaultRow> other_faults() { return kRows; }

}  // namespace tandem
