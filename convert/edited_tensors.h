#pragma once
// The TensorFlow tensors of a model with some of them edited, computed when they are read.

#include <mutex>

#include "convert/tensor_view.h"
#include "faults/fault.h"

namespace tandem {

class EditedTensors : public TensorSource {
 public:
  /// `plans` lead from contract names to TensorFlow names; a source that is no weight is looked up in
  /// `originals` (Hugging Face names; may be null). All arguments must outlive it. Memory: one edited tensor
  /// and its sources.
  EditedTensors(const TensorSource& tensors, const std::vector<TensorPlan>& plans,
                const std::vector<WeightEdit>& edits, const TensorSource* originals);
  const std::vector<TensorInfo>& tensors() const override { return tensors_.tensors(); }
  /// Errors: those of the sources and of the edit; fault_c5 (bug) an edit that makes another shape or dtype.
  Status read(std::string_view tensor, uint64_t byte_offset, std::span<std::byte> out) const override;
  std::string location(std::string_view tensor) const override { return tensors_.location(tensor); }

 private:
  Result<HostTensor> source(const std::string& name) const;
  Status make(const WeightEdit& edit, const TensorInfo& info) const;

  const TensorSource& tensors_;
  const TensorSource* originals_;
  std::map<std::string, std::string, std::less<>> tf_names_;       // by contract name
  std::map<std::string, const WeightEdit*, std::less<>> edit_of_;  // by TensorFlow name
  mutable std::mutex mutex_;
  mutable std::string made_name_;  // the tensor that made_ is
  mutable HostTensor made_;
};

}  // namespace tandem
