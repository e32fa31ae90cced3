#pragma once
// One row, read: its names with the holes filled, and its steps put together. For the rest of this folder.

#include <functional>

#include "rules/rules.h"

namespace tandem {

using HoleValues = std::map<std::string, uint64_t>;

/// The holes of a pattern in order ("a.{layer}.{expert}": layer, expert). Errors: rules_c3 a brace without
/// its partner, or "{}".
Result<std::vector<std::string>> holes_in(std::string_view pattern);
/// The pattern with its holes filled; holes without a value stay.
std::string fill(std::string_view pattern, const HoleValues& values);
/// The pattern without one hole, and without the dot or slash that set it off: "experts.{expert}.up" becomes
/// "experts.up".
std::string without_hole(std::string_view pattern, const std::string& hole);
/// Calls visit for every combination of hole values, the last hole (by name) fastest.
void for_each_place(const std::map<std::string, HoleRange>& holes,
                    const std::function<void(const HoleValues&)>& visit);

/// A row's steps as one: dequantize where fp8, permute the axes, stack.
struct RowSteps {
  const BlockDequantize* dequantize = nullptr;
  std::vector<uint64_t> axes;  ///< output axis i is source axis axes[i]
  const Stack* stack = nullptr;
};
/// The row's steps must fit (check).
RowSteps steps_of(const RuleRow& row);
/// True if the row makes a TensorFlow tensor.
inline bool makes_tensor(const RuleRow& row) { return row.ignore.empty() && row.tied_to.empty(); }
/// The Hugging Face names of a row, in order of their holes.
std::vector<std::string> hf_names(const RuleRow& row);
/// The tensors that one row makes (none if it is tied or ignored).
std::vector<TensorPlan> expand(const RuleRow& row);
/// The shape of the scales of a weight.
Shape scale_shape(const BlockDequantize& step, const Shape& weight);
/// hf name -> the row that is tied to it.
std::map<std::string, const RuleRow*> ties_of(const RuleTable& table);

Shape permuted(const Shape& shape, const std::vector<uint64_t>& axes);

}  // namespace tandem
