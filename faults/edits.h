#pragma once
// The small vocabulary that rows are written in: finding neighbours of a node, editing a block by the names
// of its values, and rearranging a stored tensor.

#include "faults/fault.h"

namespace tandem {

// ---- Reading a block.

/// The node that makes a value; null for an input of the block.
const Node* producer(const Block& block, std::string_view value);
/// The nodes that read a value, in order.
std::vector<const Node*> readers(const Block& block, std::string_view value);
/// The first rotary_table of the entries; null if there is none.
const Node* rotary_table_of(const Contract& contract);
/// Size of a value's last axis.
uint64_t last_size(const ValueTypes& types, std::string_view value);

/// The weight of an operand at the site, or null for a value.
const WeightEntry* weight_at(const FaultSite& site, const Operand& operand);

/// A kernel: which of its axes is which.
struct Kernel {
  const WeightEntry* weight = nullptr;
  const WeightEntry* bias = nullptr;  ///< null if there is none
  size_t in_axis = 0;                 ///< counted with the axis of a stack
  size_t out_axis = 1;
  uint64_t in() const { return weight->shape[in_axis]; }
  uint64_t out() const { return weight->shape[out_axis]; }
};
/// The kernel of a linear or route node of the site's block.
Kernel kernel_of(const FaultSite& site, const Node& node);

/// Where the lanes of a value with heads come from: channels of a linear's output, [head][lane].
struct HeadChannels {
  const Node* linear = nullptr;
  std::vector<std::vector<uint64_t>> channels;
};
/// Follows slice and split_heads back to a linear; nothing if something else lies between.
std::optional<HeadChannels> head_channels(const Block& block, const ValueTypes& types,
                                          std::string_view value);

// ---- Editing a block. Nodes are named by one of their outputs.

Node& node_making(Block& block, std::string_view value);
BlockEdit set_attributes(const std::string& value, const Attributes& attributes);
BlockEdit set_input(const std::string& value, size_t index, const Operand& operand);
/// Puts nodes in front of the one that makes `value`, and then applies `more`.
BlockEdit put_before(const std::string& value, std::vector<Node> nodes, BlockEdit more);
/// The value is rounded to a dtype, in f64 too, and has its own type again.
BlockEdit round_value(const std::string& value, DType to, DType own);
BlockEdit both(BlockEdit first, BlockEdit second);
/// Nodes that round an operand to a dtype and back; the last makes `output`.
std::vector<Node> rounding(const Operand& from, const std::string& output, DType to, DType own);

// ---- Editing weights.

/// Slices along an axis in another order: out[i] = in[order[i]].
HostTensor taken(const HostTensor& tensor, size_t axis, const std::vector<uint64_t>& order);
/// The same elements, the last two axes exchanged; shape included.
HostTensor transposed(const HostTensor& tensor);
/// Each number mapped in f32 and rounded to the tensor's dtype; `index` counts in row-major order.
Result<HostTensor> mapped(const HostTensor& tensor,
                          const std::function<float(float value, size_t index)>& map);

WeightEdit edit_taken(const WeightEntry& weight, size_t axis, std::vector<uint64_t> order);
WeightEdit edit_mapped(const WeightEntry& weight, std::function<float(float, size_t)> map);
/// `weight` becomes what `source` is.
WeightEdit edit_replaced(const WeightEntry& weight, const WeightEntry& source);
std::vector<WeightEdit> edit_swapped(const WeightEntry& a, const WeightEntry& b);

std::vector<uint64_t> numbers_up_to(uint64_t count);
bool is_in_order(const std::vector<uint64_t>& order);

}  // namespace tandem
