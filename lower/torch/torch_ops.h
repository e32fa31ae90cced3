#pragma once
// The rows of the PyTorch lowering, one an op.

#include <ATen/core/Tensor.h>

#include <span>

#include "lower/torch/lower_torch.h"

namespace tandem {

/// A node at work. Inputs have the dtypes that the checker inferred, floats widened to f64 if float64 is
/// asked for.
struct TorchCall {
  const Node& node;
  std::span<const at::Tensor> inputs;
  bool float64;

  const at::Tensor& operator[](size_t index) const { return inputs[index]; }
  /// The type that stands for a float type of the contract; `wide` for f32 where the contract fixes f32.
  at::ScalarType type(at::ScalarType contract_type) const;
  at::ScalarType wide() const { return type(at::kFloat); }
};

struct TorchOpRow {
  std::string_view name;
  Result<std::vector<at::Tensor>> (*run)(const TorchCall& call);
  /// The rows that are read of the weight that comes after `before`, the inputs up to it; null for all.
  TorchRows (*rows)(const Node& node, std::span<const at::Tensor> before) = nullptr;
};
std::span<const TorchOpRow> torch_op_rows();

}  // namespace tandem
