#pragma once
// The TensorFlow row of every op: what nodes it becomes. One line an op in lower_ops.cpp; a row emits nodes
// and knows nothing of files.

#include "contract/graph.h"
#include "lower/tf/function_builder.h"

namespace tandem {

/// What a row may need besides its function: a place for helper functions (loop bodies), and the chosen form
/// of attention.
struct LowerContext {
  std::vector<tensorflow::FunctionDef>* library;  ///< helper functions are appended here
  uint64_t query_chunk = 0;  ///< attention for so many queries at a time, in a loop; 0: for all at once
  std::string function;      ///< name of the function being written, a prefix for helpers
  bool compiled = false;     ///< for XLA: loops stay functions, which it compiles, and are not lowered
  DType matmul_precision = DType::f32;  ///< of linears in what is compiled (LowerTfOptions)
};

using LowerFunction = std::vector<Tensor> (*)(FunctionBuilder& f, const Node& node,
                                              std::span<const TfOperand> inputs, LowerContext& context);

struct LowerRow {
  std::string_view op;
  LowerFunction lower;
};
std::span<const LowerRow> lower_rows();
LowerFunction find_lowering(std::string_view op);

// The rows, by file.
std::vector<Tensor> lower_positions(FunctionBuilder&, const Node&, std::span<const TfOperand>, LowerContext&);
std::vector<Tensor> lower_fill_like(FunctionBuilder&, const Node&, std::span<const TfOperand>, LowerContext&);
std::vector<Tensor> lower_select(FunctionBuilder&, const Node&, std::span<const TfOperand>, LowerContext&);
std::vector<Tensor> lower_embedding(FunctionBuilder&, const Node&, std::span<const TfOperand>, LowerContext&);
std::vector<Tensor> lower_linear(FunctionBuilder&, const Node&, std::span<const TfOperand>, LowerContext&);
std::vector<Tensor> lower_rms_norm(FunctionBuilder&, const Node&, std::span<const TfOperand>, LowerContext&);
std::vector<Tensor> lower_add(FunctionBuilder&, const Node&, std::span<const TfOperand>, LowerContext&);
std::vector<Tensor> lower_activation_gate(FunctionBuilder&, const Node&, std::span<const TfOperand>,
                                          LowerContext&);
std::vector<Tensor> lower_split_heads(FunctionBuilder&, const Node&, std::span<const TfOperand>,
                                      LowerContext&);
std::vector<Tensor> lower_merge_heads(FunctionBuilder&, const Node&, std::span<const TfOperand>,
                                      LowerContext&);
std::vector<Tensor> lower_repeat_heads(FunctionBuilder&, const Node&, std::span<const TfOperand>,
                                       LowerContext&);
std::vector<Tensor> lower_gather_heads(FunctionBuilder&, const Node&, std::span<const TfOperand>,
                                       LowerContext&);
std::vector<Tensor> lower_roll(FunctionBuilder&, const Node&, std::span<const TfOperand>, LowerContext&);
std::vector<Tensor> lower_slice(FunctionBuilder&, const Node&, std::span<const TfOperand>, LowerContext&);
std::vector<Tensor> lower_concat(FunctionBuilder&, const Node&, std::span<const TfOperand>, LowerContext&);
std::vector<Tensor> lower_cast(FunctionBuilder&, const Node&, std::span<const TfOperand>, LowerContext&);
std::vector<Tensor> lower_rotary_table(FunctionBuilder&, const Node&, std::span<const TfOperand>,
                                       LowerContext&);
std::vector<Tensor> lower_rotary(FunctionBuilder&, const Node&, std::span<const TfOperand>, LowerContext&);
std::vector<Tensor> lower_attention(FunctionBuilder&, const Node&, std::span<const TfOperand>, LowerContext&);
std::vector<Tensor> lower_route(FunctionBuilder&, const Node&, std::span<const TfOperand>, LowerContext&);
std::vector<Tensor> lower_experts(FunctionBuilder&, const Node&, std::span<const TfOperand>, LowerContext&);

std::vector<Tensor> lower_append(FunctionBuilder&, const Node&, std::span<const TfOperand>, LowerContext&);
std::vector<Tensor> lower_last_tokens(FunctionBuilder&, const Node&, std::span<const TfOperand>,
                                      LowerContext&);
std::vector<Tensor> lower_head_linear(FunctionBuilder&, const Node&, std::span<const TfOperand>,
                                      LowerContext&);

std::vector<Tensor> lower_cached_attention(FunctionBuilder&, const Node&, std::span<const TfOperand>,
                                           LowerContext&);

}  // namespace tandem
