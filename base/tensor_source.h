#pragma once
// Named tensors that can be read piecewise: what a checkpoint is to everything above formats/.

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_window.h"
#include "base/shape.h"

namespace tandem {

struct TensorInfo {
  std::string name;
  DType dtype;
  Shape shape;
};

/// A set of named tensors on disk or in memory. Reads may come from several threads.
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  /// All tensors, in the source's canonical order (numbers in names by value: layer 2 before layer 10).
  virtual const std::vector<TensorInfo>& tensors() const = 0;
  /// Reads out.size() bytes of a tensor's row-major little-endian data from byte_offset on.
  /// Errors: missing (no such tensor), io, corrupt.
  virtual Status read(std::string_view tensor, uint64_t byte_offset, std::span<std::byte> out) const = 0;
  /// Bytes of a tensor in the file where they lie, or nullptr where they must be read: no such tensor, or not
  /// in one piece. The source must outlive it.
  virtual std::unique_ptr<FileWindow> window(std::string_view /*tensor*/, uint64_t /*byte_offset*/,
                                             uint64_t /*size*/) const {
    return nullptr;
  }
  /// The file and byte range where a tensor lies, for messages; the source's own name if it has no files.
  virtual std::string location(std::string_view tensor) const = 0;

  /// The tensor of that name, or nullptr.
  const TensorInfo* find(std::string_view tensor) const;
};

/// Reads a box of a tensor into out (row-major, element_count(box) * size_of(dtype) bytes), in as few
/// contiguous reads as it has.
Status read_box(const TensorSource& source, const TensorInfo& tensor, const Box& box,
                std::span<std::byte> out);

/// Tensors held in memory: for tests, and for what the tool makes itself.
class MemorySource : public TensorSource {
 public:
  void add(TensorInfo info, std::vector<std::byte> data);
  const std::vector<TensorInfo>& tensors() const override { return infos_; }
  Status read(std::string_view tensor, uint64_t byte_offset, std::span<std::byte> out) const override;
  std::string location(std::string_view tensor) const override;

 private:
  std::vector<TensorInfo> infos_;
  std::map<std::string, std::vector<std::byte>, std::less<>> data_;
};

/// Orders names as people do: runs of digits by their value. The canonical order of tensors in every output.
bool natural_less(std::string_view a, std::string_view b);

}  // namespace tandem
