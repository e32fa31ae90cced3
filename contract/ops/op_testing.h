#pragma once
// For the tests of ops: one node made, inferred and run in a line.

#include "contract/ops/registry.h"

namespace tandem {

inline Node node_of(std::string op, Attributes attributes = {}, size_t output_count = 1) {
  Node node{std::move(op), {}, std::move(attributes), {}, {}};
  for (size_t i = 0; i < output_count; ++i) node.outputs.push_back("y" + std::to_string(i));
  return node;
}

/// What the op says of these operands: its output types, or "label: text".
inline std::string infer(const Node& node, const std::vector<TensorType>& inputs) {
  const auto types = infer_types_of(node, inputs);
  if (!types.ok()) return types.error().message();
  std::string text;
  for (const TensorType& type : types.value()) text += (text.empty() ? "" : ", ") + to_string(type);
  return text;
}

inline Outputs<double> run_f64(const Node& node, const std::vector<Value<double>>& inputs) {
  return find_op(node.op)->evaluate_f64(node, inputs);
}
inline Outputs<float> run_f32(const Node& node, const std::vector<Value<float>>& inputs) {
  return find_op(node.op)->evaluate_f32(node, inputs);
}

}  // namespace tandem
