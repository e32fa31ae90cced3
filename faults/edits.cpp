#include "faults/edits.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace tandem {
namespace {

/// Channels of a value [..., lanes] that slices take out of a linear.
std::optional<std::pair<const Node*, std::vector<uint64_t>>> lane_channels(const Block& block,
                                                                           const ValueTypes& types,
                                                                           std::string_view value) {
  const Node* node = producer(block, value);
  if (!node) return {};
  if (node->op == "linear") return std::pair(node, numbers_up_to(last_size(types, value)));
  if (node->op != "slice") return {};
  auto from = lane_channels(block, types, node->inputs[0].name);
  if (!from) return {};
  const auto begin = from->second.begin() + int_attribute(*node, "begin");
  from->second = std::vector<uint64_t>(begin, begin + int_attribute(*node, "size"));
  return from;
}

}  // namespace

const Node* producer(const Block& block, std::string_view value) {
  for (const Node& node : block.nodes)
    if (std::ranges::find(node.outputs, value) != node.outputs.end()) return &node;
  return nullptr;
}

std::vector<const Node*> readers(const Block& block, std::string_view value) {
  std::vector<const Node*> found;
  for (const Node& node : block.nodes)
    if (std::ranges::any_of(node.inputs, [&](const Operand& o) { return !o.is_weight && o.name == value; }))
      found.push_back(&node);
  return found;
}

const Node* rotary_table_of(const Contract& contract) {
  for (const Block& entry : contract.entries)
    for (const Node& node : entry.nodes)
      if (node.op == "rotary_table") return &node;
  return nullptr;
}

uint64_t last_size(const ValueTypes& types, std::string_view value) {
  return types.find(value)->second.shape.back().size;
}

const WeightEntry* weight_at(const FaultSite& site, const Operand& operand) {
  return operand.is_weight ? find_weight(site.contract, weight_name(site.place, operand)) : nullptr;
}

Kernel kernel_of(const FaultSite& site, const Node& node) {
  Kernel kernel;
  kernel.weight = weight_at(site, node.inputs[1]);
  if (node.op == "linear" && node.inputs.size() > 2) kernel.bias = weight_at(site, node.inputs[2]);
  if (string_attribute(node, "layout") == "out_in") std::swap(kernel.in_axis, kernel.out_axis);
  return kernel;
}

std::optional<HeadChannels> head_channels(const Block& block, const ValueTypes& types,
                                          std::string_view value) {
  const Node* node = producer(block, value);
  if (!node) return {};
  if (node->op == "slice") {
    auto from = head_channels(block, types, node->inputs[0].name);
    if (!from) return {};
    for (std::vector<uint64_t>& head : from->channels) {
      const auto begin = head.begin() + int_attribute(*node, "begin");
      head = std::vector<uint64_t>(begin, begin + int_attribute(*node, "size"));
    }
    return from;
  }
  if (node->op != "split_heads") return {};
  const auto lanes = lane_channels(block, types, node->inputs[0].name);
  if (!lanes) return {};
  HeadChannels found{lanes->first, {}};
  const auto heads = static_cast<size_t>(int_attribute(*node, "heads")), size = lanes->second.size() / heads;
  for (size_t h = 0; h < heads; ++h)
    found.channels.emplace_back(lanes->second.begin() + static_cast<int64_t>(h * size),
                                lanes->second.begin() + static_cast<int64_t>((h + 1) * size));
  return found;
}

Node& node_making(Block& block, std::string_view value) {
  const auto found = std::ranges::find_if(block.nodes, [&](const Node& node) {
    return std::ranges::find(node.outputs, value) != node.outputs.end();
  });
  assert(found != block.nodes.end());
  return *found;
}

BlockEdit set_attributes(const std::string& value, const Attributes& attributes) {
  return [=](Block& block) {
    for (const auto& [name, attribute] : attributes)
      node_making(block, value).attributes.insert_or_assign(name, attribute);
  };
}

BlockEdit set_input(const std::string& value, size_t index, const Operand& operand) {
  return [=](Block& block) { node_making(block, value).inputs[index] = operand; };
}

BlockEdit put_before(const std::string& value, std::vector<Node> nodes, BlockEdit more) {
  return [value, nodes = std::move(nodes), more = std::move(more)](Block& block) {
    const auto at = block.nodes.begin() + (&node_making(block, value) - block.nodes.data());
    block.nodes.insert(at, nodes.begin(), nodes.end());
    more(block);
  };
}

BlockEdit both(BlockEdit first, BlockEdit second) {
  return [first = std::move(first), second = std::move(second)](Block& block) {
    first(block);
    second(block);
  };
}

std::vector<Node> rounding(const Operand& from, const std::string& output, DType to, DType own) {
  const std::string narrow = output + ".narrow";
  return {{"cast", {from}, {{"dtype", std::string(name(to))}, {"always", true}}, {narrow}, {}},
          {"cast", {{narrow, false}}, {{"dtype", std::string(name(own))}}, {output}, {}}};
}

BlockEdit round_value(const std::string& value, DType to, DType own) {
  return [=](Block& block) {
    Node& node = node_making(block, value);
    const std::string exact = value + ".exact";
    const bool first = node.outputs[0] == value;
    *std::ranges::find(node.outputs, value) = exact;
    std::vector<Node> nodes = rounding({exact, false}, value, to, own);
    if (first) std::swap(nodes.back().tap, node.tap);
    block.nodes.insert(block.nodes.begin() + (&node - block.nodes.data()) + 1, nodes.begin(), nodes.end());
  };
}

HostTensor taken(const HostTensor& tensor, size_t axis, const std::vector<uint64_t>& order) {
  size_t outer = 1, inner = size_of(tensor.dtype);
  for (size_t i = 0; i < axis; ++i) outer *= tensor.shape[i];
  for (size_t i = axis + 1; i < tensor.shape.size(); ++i) inner *= tensor.shape[i];
  HostTensor out = tensor;
  for (size_t o = 0; o < outer; ++o)
    for (size_t i = 0; i < order.size(); ++i)
      std::memcpy(out.data.data() + (o * order.size() + i) * inner,
                  tensor.data.data() + (o * order.size() + order[i]) * inner, inner);
  return out;
}

HostTensor transposed(const HostTensor& tensor) {
  HostTensor out = tensor;
  const size_t rank = tensor.shape.size(), rows = tensor.shape[rank - 2], columns = tensor.shape[rank - 1];
  std::swap(out.shape[rank - 2], out.shape[rank - 1]);
  const size_t size = size_of(tensor.dtype), matrix = rows * columns * size;
  for (size_t begin = 0; matrix > 0 && begin < tensor.data.size(); begin += matrix)
    for (size_t r = 0; r < rows; ++r)
      for (size_t c = 0; c < columns; ++c)
        std::memcpy(out.data.data() + begin + (c * rows + r) * size,
                    tensor.data.data() + begin + (r * columns + c) * size, size);
  return out;
}

Result<HostTensor> mapped(const HostTensor& tensor, const std::function<float(float, size_t)>& map) {
  TANDEM_TRY(HostTensor wide, in_dtype(tensor, DType::f32));
  for (size_t i = 0; i * sizeof(float) < wide.data.size(); ++i) {
    float number;
    std::memcpy(&number, wide.data.data() + i * sizeof number, sizeof number);
    number = map(number, i);
    std::memcpy(wide.data.data() + i * sizeof number, &number, sizeof number);
  }
  return in_dtype(wide, tensor.dtype);
}

WeightEdit edit_taken(const WeightEntry& weight, size_t axis, std::vector<uint64_t> order) {
  return {weight.name, {weight.name}, [axis, order = std::move(order)](std::span<const HostTensor> sources) {
            return Result(taken(sources[0], axis, order));
          }};
}

WeightEdit edit_mapped(const WeightEntry& weight, std::function<float(float, size_t)> map) {
  return {weight.name, {weight.name}, [map = std::move(map)](std::span<const HostTensor> sources) {
            return mapped(sources[0], map);
          }};
}

WeightEdit edit_replaced(const WeightEntry& weight, const WeightEntry& source) {
  return {weight.name, {source.name}, [dtype = weight.storage](std::span<const HostTensor> sources) {
            return in_dtype(sources[0], dtype);
          }};
}

std::vector<WeightEdit> edit_swapped(const WeightEntry& a, const WeightEntry& b) {
  return {edit_replaced(a, b), edit_replaced(b, a)};
}

std::vector<uint64_t> numbers_up_to(uint64_t count) {
  std::vector<uint64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), uint64_t{0});
  return numbers;
}

bool is_in_order(const std::vector<uint64_t>& order) { return order == numbers_up_to(order.size()); }

}  // namespace tandem
