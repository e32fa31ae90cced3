#include "lower/tf/linears_apart.h"

#include <algorithm>

#include "contract/check.h"

namespace tandem {

Contract with_linears_apart(Contract contract, std::string_view name) {
  const auto entry = std::ranges::find(contract.entries, name, &Block::name);
  if (entry == contract.entries.end()) return contract;
  const ValueTypes types = infer_types(contract, *entry).value();  // the contract was checked
  for (Node& node : entry->nodes) {
    if (node.op != "linear") continue;
    const std::string output = node.outputs[0];
    Block block{fmt::format("{}_{}", name, output), {}, {}, {node}, {output}};
    std::vector<Operand> values;
    for (const Operand& operand : node.inputs) {
      if (operand.is_weight) {
        const WeightEntry& weight = *find_weight(contract, operand.name);
        block.weights.push_back(
            {weight.name, {contract.compute, {weight.shape.begin(), weight.shape.end()}}});
      } else {
        block.inputs.push_back({operand.name, types.find(operand.name)->second});
        values.push_back(operand);
      }
    }
    node = {"call", std::move(values), {{"block", block.name}, {"at", std::string()}}, {output}, ""};
    contract.blocks.push_back(std::move(block));
  }
  return contract;
}

}  // namespace tandem
