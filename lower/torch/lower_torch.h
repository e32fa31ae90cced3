#pragma once
// Contract to PyTorch: runs an entry op by op on tensors of libtorch. Knows no files; weights come through a
// lookup.

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>

#include "contract/graph.h"

namespace tandem {

using TorchTensors = std::map<std::string, at::Tensor, std::less<>>;

/// The rows of a weight's first axis that a node reads (an embedding those of its ids, a mixture those of the
/// chosen experts), each once; all where there is none. Numbers that are no row are not read.
using TorchRows = std::optional<std::vector<int64_t>>;

/// A weight of the contract by WeightEntry name, in the type that it is computed with. Its shape is the whole
/// one, whatever `rows` says; what stands in other rows does not matter.
using TorchWeights =
    std::function<Result<at::Tensor>(const std::string& name, at::ScalarType type, const TorchRows& rows)>;

struct TorchOptions {
  bool float64 = false;    ///< all float arithmetic in float64, whatever the contract says; angles stay f32:
                           ///< they are part of the model
  bool with_taps = false;  ///< the result holds every tap too, by its full name
};

/// A part of an entry: values by name, and what stands in place of computed ones.
struct TorchPart {
  bool in_block = false;             ///< names are those of the block that the entry's one call calls
  std::vector<std::string> outputs;  ///< value names; only what they need is run
};

/// Runs `entry` of a checked contract, without autograd. A weight is looked up when a node needs it, and let
/// go after that node. The result holds the entry's outputs by name.
/// Errors: lower_torch_c1 (invalid) an input is missing or not of the declared dtype and rank; lower_torch_c2
/// (unsupported) an op without a row here; lower_torch_c3 (invalid) what PyTorch threw; whatever the lookup
/// returns.
Result<TorchTensors> run_torch(const Contract& contract, const Block& entry, const TorchTensors& inputs,
                               const TorchWeights& weights, const TorchOptions& options = {});

/// Runs a part of an entry. `given` holds the entry's inputs as far as they are needed, and values of the
/// part's scope. Errors: as run_torch; lower_torch_c5 (invalid) no value of that name, or not exactly one
/// call.
Result<TorchTensors> run_torch_part(const Contract& contract, const Block& entry, const TorchPart& part,
                                    const TorchTensors& given, const TorchWeights& weights,
                                    const TorchOptions& options = {});

/// PyTorch's number of a dtype. Errors: lower_torch_c4 (unsupported) PyTorch has none.
Result<at::ScalarType> torch_type(DType dtype);
Result<DType> dtype_of_torch(at::ScalarType type);

/// Ops that have a PyTorch lowering, for the status table.
std::vector<std::string_view> torch_ops();

}  // namespace tandem
