#pragma once
// What both directions share: tensors that are computed when they are read. For the rest of this folder.

#include <map>
#include <mutex>

#include "base/tensor_source.h"

namespace tandem {

class ComputedTensors {
 public:
  virtual ~ComputedTensors() = default;
  const std::vector<TensorInfo>& infos() const { return infos_; }
  /// Any range of bytes, also one that begins or ends inside an element.
  Status read_bytes(std::string_view tensor, uint64_t byte_offset, std::span<std::byte> out) const;
  CastCounts counts_of(std::string_view tensor) const;

 protected:
  /// Whole elements of tensor `index` from `first` on.
  virtual Result<CastCounts> elements(size_t index, uint64_t first, std::span<std::byte> out) const = 0;
  /// Sets the tensors. Their order must be the canonical one.
  void set_infos(std::vector<TensorInfo> infos);
  std::optional<size_t> index_of(std::string_view tensor) const;

 private:
  Status add_elements(size_t index, uint64_t first, std::span<std::byte> out) const;

  std::vector<TensorInfo> infos_;
  std::map<std::string_view, size_t> index_;
  mutable std::mutex mutex_;
  mutable std::vector<CastCounts> counts_;
};

}  // namespace tandem
