#include "verify/layer_stack.h"

#include <algorithm>

#include "contract/check.h"

namespace tandem {
namespace {

Error no_stack(std::string_view what) {
  return unsupported("verify_c6", "the contract is no stack of layers: {}", what);
}

TapPlace place_of(const std::string& prefix, const Node& node, const ValueTypes& types) {
  return {full_name(prefix, node.tap), node.outputs[0], &node, token_axis(types.at(node.outputs[0]))};
}

Result<LayerPlace> layer_of(const Contract& contract, const Node& call, size_t index, std::string input_tap) {
  LayerPlace layer;
  layer.entry = fmt::format("layer_{}", index);
  if (!find_entry(contract, layer.entry)) return no_stack("no entry " + layer.entry);
  layer.place = string_attribute(call, "at");
  layer.block = find_block(contract, string_attribute(call, "block"));
  layer.input_tap = std::move(input_tap);
  TANDEM_TRY(const ValueTypes types, infer_types(contract, *layer.block));
  for (const Node& node : layer.block->nodes) {
    if (!node.tap.empty()) layer.taps.push_back(place_of(layer.place, node, types));
    if (node.op != "route") continue;
    layer.route = &node;
    layer.route_tap = node.tap.empty() ? "" : full_name(layer.place, node.tap);
  }
  const std::string& result = layer.block->results[0];
  const auto makes = [&](const Node& node) { return node.outputs[0] == result; };
  const auto last = std::find_if(layer.block->nodes.begin(), layer.block->nodes.end(), makes);
  if (last == layer.block->nodes.end()) return no_stack(layer.place + " returns an input");
  layer.taps.push_back({full_name("", call.tap), result, &*last, token_axis(types.at(result))});
  return layer;
}

}  // namespace

size_t token_axis(const TensorType& type) {
  for (size_t axis = 0; axis < type.shape.size(); ++axis)
    if (type.shape[axis].symbol == "tokens") return axis;
  return 1;
}

Result<LayerStack> layer_stack_of(const Contract& contract) {
  LayerStack stack{};
  stack.entry = find_entry(contract, "logits");
  if (!stack.entry) return no_stack("no entry logits");
  TANDEM_TRY(const ValueTypes types, infer_types(contract, *stack.entry));
  for (const Node& node : stack.entry->nodes) {
    if (node.op == "rotary_table") stack.rotary = place_of("", node, types);
    if (node.op == "embedding") stack.embedding = place_of("", node, types);
    if (node.op == "call") {
      const std::string input =
          stack.layers.empty() ? stack.embedding.tap : stack.layers.back().taps.back().tap;
      TANDEM_TRY(LayerPlace layer, layer_of(contract, node, stack.layers.size(), input));
      stack.layers.push_back(std::move(layer));
    }
    if (node.op == "rms_norm") stack.norm = place_of("", node, types);
    if (node.op == "linear") stack.head = place_of("", node, types);
  }
  for (const TapPlace* part : {&stack.rotary, &stack.embedding, &stack.norm, &stack.head})
    if (!part->node) return no_stack("no rotary table, embedding, last norm or head");
  if (stack.layers.empty()) return no_stack("no layers");
  return stack;
}

const std::string& forced_operand(const Node& route) {
  return std::find_if(route.inputs.rbegin(), route.inputs.rend(),
                      [](const Operand& operand) { return !operand.is_weight; })
      ->name;
}

std::vector<std::string> tap_names(const LayerStack& stack) {
  std::vector<std::string> names{stack.rotary.tap, stack.embedding.tap};
  for (const LayerPlace& layer : stack.layers)
    for (const TapPlace& tap : layer.taps) names.push_back(tap.tap);
  names.push_back(stack.norm.tap);
  names.push_back(stack.head.tap);
  return names;
}

}  // namespace tandem
