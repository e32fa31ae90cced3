// The table put together, and its rows at work on a contract.

#include <algorithm>

#include "faults/edits.h"
#include "faults/rows.h"

namespace tandem {
namespace {

std::vector<FaultRow> all_rows() {
  std::vector<FaultRow> rows;
  for (const auto part : {norm_faults(), rotary_faults(), attention_faults(), order_faults(), kernel_faults(),
                          mixture_faults(), scale_faults(), dtype_faults(), other_faults()})
    rows.insert(rows.end(), part.begin(), part.end());
  return rows;
}

/// The places that a block is called from, each once, in order.
std::vector<std::string> places_of(const Contract& contract, const Block& block) {
  std::vector<std::string> places;
  for (const Block& entry : contract.entries)
    for (const Node& node : entry.nodes)
      if (node.op == "call" && string_attribute(node, "block") == block.name &&
          std::ranges::find(places, string_attribute(node, "at")) == places.end())
        places.push_back(string_attribute(node, "at"));
  return places;
}

std::string_view parent_of(std::string_view tap) {
  const size_t dot = tap.rfind('.');
  return dot == tap.npos ? tap : tap.substr(0, dot);
}

}  // namespace

std::span<const FaultRow> faults() {
  static const std::vector<FaultRow> rows = all_rows();
  return rows;
}

std::vector<const FaultRow*> faults_named(std::string_view name) {
  std::vector<const FaultRow*> found;
  for (const FaultRow& row : faults())
    if (row.name == name || row.name.starts_with(std::string(name) + ".")) found.push_back(&row);
  return found;
}

std::vector<Hypothesis> hypotheses_of(const FaultRow& row, const FaultSite& site) {
  std::vector<Hypothesis> found = row.at(site);
  for (Hypothesis& hypothesis : found) hypothesis.fault = row.name;
  return found;
}

std::vector<Hypothesis> hypotheses_at(const FaultSite& site) {
  std::vector<Hypothesis> found;
  for (const FaultRow& row : faults())
    if (row.hypothesis)
      for (Hypothesis& hypothesis : hypotheses_of(row, site)) found.push_back(std::move(hypothesis));
  return found;
}

Status for_each_site(const Contract& contract, const FaultContext& context,
                     const std::function<void(const FaultSite&)>& visit) {
  const auto walk = [&](const Block& block, const std::vector<std::string>& places) -> Status {
    TANDEM_TRY(const ValueTypes types, infer_types(contract, block));
    for (const std::string& place : places)
      for (const Node& node : block.nodes) visit({contract, block, place, node, types, context});
    return {};
  };
  for (const Block& block : contract.blocks) TANDEM_CHECK(walk(block, places_of(contract, block)));
  for (const Block& entry : contract.entries) TANDEM_CHECK(walk(entry, {""}));
  return {};
}

Contract with_hypothesis(const Contract& contract, const std::string& block, const std::string& place,
                         const Hypothesis& hypothesis) {
  Contract changed = contract;
  if (!hypothesis.edit) return changed;
  if (place.empty()) {
    hypothesis.edit(*std::ranges::find(changed.entries, block, &Block::name));
    return changed;
  }
  hypothesis.edit(own_block(changed, place));
  return changed;
}

Block& own_block(Contract& contract, const std::string& place) {
  const std::string name = block_at(contract, place);
  const Block& shared = *find_block(contract, name);
  if (places_of(contract, shared).size() == 1) return *std::ranges::find(contract.blocks, name, &Block::name);
  Block clone = shared;
  clone.name = name + "." + place;
  for (Block& entry : contract.entries)
    for (Node& node : entry.nodes)
      if (node.op == "call" && string_attribute(node, "at") == place) node.attributes["block"] = clone.name;
  contract.blocks.push_back(std::move(clone));
  return contract.blocks.back();
}

std::string block_at(const Contract& contract, const std::string& place) {
  for (const Block& entry : contract.entries)
    for (const Node& node : entry.nodes)
      if (node.op == "call" && string_attribute(node, "at") == place) return string_attribute(node, "block");
  return {};
}

std::string weight_name(const std::string& place, const Operand& operand) {
  return full_name(place, operand.name);
}

std::string module_of(const FaultSite& site) {
  if (!site.node.tap.empty()) return full_name(site.place, site.node.tap);
  const Node* last = site.block.nodes.data() + site.block.nodes.size();
  for (const Node* node = &site.node + 1; node < last; ++node)
    if (!node->tap.empty()) return full_name(site.place, parent_of(node->tap));
  return site.place;
}

}  // namespace tandem
