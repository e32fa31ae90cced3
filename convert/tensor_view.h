#pragma once
// Sources made of other sources: some tensors picked and renamed, or every read watched.

#include <functional>
#include <mutex>

#include "base/tensor_source.h"

namespace tandem {

/// The bytes of all tensors of a source. Errors: shape_c1.
Result<uint64_t> total_bytes(const TensorSource& source);

/// Tensors of other sources under names of our own. The sources must outlive it.
class TensorView : public TensorSource {
 public:
  /// `info` is the tensor as shown; its bytes are those of `name_there` in `source`.
  void add(TensorInfo info, const TensorSource& source, std::string name_there);
  /// All tensors of a source as they are.
  void add_all(const TensorSource& source);
  /// To be called after the last add: puts the tensors in canonical order.
  void sort();
  const std::vector<TensorInfo>& tensors() const override { return infos_; }
  Status read(std::string_view tensor, uint64_t byte_offset, std::span<std::byte> out) const override;
  std::unique_ptr<FileWindow> window(std::string_view tensor, uint64_t byte_offset,
                                     uint64_t size) const override;
  std::string location(std::string_view tensor) const override;
  /// Where a tensor's bytes come from; it must be here.
  const TensorSource& source_of(std::string_view tensor) const {
    return *origins_.find(tensor)->second.source;
  }
  const std::string& name_there(std::string_view tensor) const { return origins_.find(tensor)->second.name; }

 private:
  struct Origin {
    const TensorSource* source;
    std::string name;
  };
  std::vector<TensorInfo> infos_;
  std::map<std::string, Origin, std::less<>> origins_;
};

/// A source whose reads are told to somebody.
class WatchedSource : public TensorSource {
 public:
  /// `on_read` is called after each read with the number of bytes, by one thread at a time; its error is the
  /// read's.
  WatchedSource(const TensorSource& source, std::function<Status(uint64_t)> on_read)
      : source_(source), on_read_(std::move(on_read)) {}
  const std::vector<TensorInfo>& tensors() const override { return source_.tensors(); }
  Status read(std::string_view tensor, uint64_t byte_offset, std::span<std::byte> out) const override {
    TANDEM_CHECK(source_.read(tensor, byte_offset, out));
    const std::lock_guard lock(mutex_);
    return on_read_(out.size());
  }
  std::string location(std::string_view tensor) const override { return source_.location(tensor); }

 private:
  const TensorSource& source_;
  std::function<Status(uint64_t)> on_read_;
  mutable std::mutex mutex_;
};

}  // namespace tandem
