#include "lower/tf/experts_apart.h"

#include <algorithm>
#include <set>

#include "contract/check.h"

namespace tandem {
namespace {

using Names = std::set<std::string>;

Names read_by(const std::vector<Node>& nodes, bool weights) {
  Names names;
  for (const Node& node : nodes)
    for (const Operand& operand : node.inputs)
      if (operand.is_weight == weights) names.insert(operand.name);
  return names;
}

Names made_by(const std::vector<Node>& nodes) {
  Names names;
  for (const Node& node : nodes) names.insert(node.outputs.begin(), node.outputs.end());
  return names;
}

/// Some nodes of a block as a block of their own: what they read and do not make is its input.
Block part_of(const Block& whole, const ValueTypes& types, std::string name, std::vector<Node> nodes,
              std::vector<std::string> results) {
  Block part{std::move(name), {}, {}, std::move(nodes), std::move(results)};
  const Names made = made_by(part.nodes), weights = read_by(part.nodes, true);
  for (const std::string& value : read_by(part.nodes, false))
    if (!made.contains(value)) part.inputs.push_back({value, types.find(value)->second});
  for (const Parameter& weight : whole.weights)
    if (weights.contains(weight.name)) part.weights.push_back(weight);
  return part;
}

struct Parts {
  Block before, experts;
};

Parts parts_of(const Contract& contract, const Block& block) {
  std::vector<Node> before, after;
  Names late;  // follows from the experts
  for (const Node& node : block.nodes) {
    const bool follows =
        node.op == "experts" || std::ranges::any_of(node.inputs, [&](const Operand& operand) {
          return !operand.is_weight && late.contains(operand.name);
        });
    if (follows) late.insert(node.outputs.begin(), node.outputs.end());
    (follows ? after : before).push_back(node);
  }
  Names crossing = read_by(after, false);
  crossing.insert(block.results.begin(), block.results.end());
  std::vector<std::string> early, results;
  for (const std::string& value : made_by(before))
    if (crossing.contains(value)) early.push_back(value);
  std::ranges::copy_if(block.results, std::back_inserter(results),
                       [&](const std::string& result) { return late.contains(result); });
  const ValueTypes types = infer_types(contract, block).value();  // the contract was checked
  return {part_of(block, types, block.name + "_before", std::move(before), std::move(early)),
          part_of(block, types, block.name + "_experts", std::move(after), std::move(results))};
}

/// One call as two. Values of the block that the call does not give get a name after its first output.
std::vector<Node> calls_of(const Node& call, const Block& block, const Parts& parts) {
  const auto outside = [&](const std::string& value) -> Operand {
    for (size_t i = 0; i < block.inputs.size(); ++i)
      if (block.inputs[i].name == value) return call.inputs[i];
    for (size_t i = 0; i < block.results.size(); ++i)
      if (block.results[i] == value) return {call.outputs[i], false};
    return {fmt::format("{}.{}", call.outputs[0], value), false};
  };
  const auto call_of = [&](const Block& part) {
    Node node = call;
    node.attributes["block"] = part.name;
    node.inputs.clear();
    node.outputs.clear();
    for (const Parameter& input : part.inputs) node.inputs.push_back(outside(input.name));
    for (const std::string& result : part.results) node.outputs.push_back(outside(result).name);
    return node;
  };
  return {call_of(parts.before), call_of(parts.experts)};
}

}  // namespace

bool has_experts(const Block& block) {
  return std::ranges::count(block.nodes, std::string_view("experts"), &Node::op) != 0;
}

Contract with_experts_apart(Contract contract) {
  std::map<std::string, Parts> parted;
  std::vector<Block> entries;
  for (const auto& [from, to] : {std::pair{"prefill", "prefill_xla"}, std::pair{"step", "decode_xla"}}) {
    const Block* whole = find_entry(contract, from);
    if (!find_entry(contract, "step") || !whole) return contract;
    Block entry = *whole;
    entry.name = to;
    entry.nodes.clear();
    for (const Node& node : whole->nodes) {
      const Block* block =
          node.op == "call" ? find_block(contract, string_attribute(node, "block")) : nullptr;
      if (!block || !has_experts(*block)) {
        entry.nodes.push_back(node);
        continue;
      }
      if (!parted.contains(block->name)) parted[block->name] = parts_of(contract, *block);
      for (Node& call : calls_of(node, *block, parted[block->name])) entry.nodes.push_back(std::move(call));
    }
    entries.push_back(std::move(entry));
  }
  for (auto& [name, parts] : parted) {
    contract.blocks.push_back(std::move(parts.before));
    contract.blocks.push_back(std::move(parts.experts));
  }
  std::ranges::move(entries, std::back_inserter(contract.entries));
  return contract;
}

}  // namespace tandem
