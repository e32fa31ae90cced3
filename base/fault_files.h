#pragma once
// A FileSystem whose calls fail on purpose: for tests of what a full or broken disk leaves behind.

#include <array>
#include <atomic>

#include "base/file.h"

namespace tandem {

enum class FileCall { open, create, read, write, close, list, make_directories, rename, remove, sync };

/// Passes everything on to another FileSystem, but lets one call fail. Counts may be read and faults set
/// between calls; calls may come from several threads.
class FaultyFiles : public FileSystem {
 public:
  explicit FaultyFiles(const FileSystem& inner = real_files()) : inner_(inner) {}

  /// The k-th call of this kind from now on (the first is 1) fails with errno_value (EIO, ENOSPC). A failing
  /// write puts half of its bytes down first, as a disk that fills up does. With `stays`, all later calls of
  /// the kind fail too.
  void fail(FileCall call, uint64_t k, int errno_value, bool stays = false);
  /// How many calls of this kind there were since the last fail(), failed ones included.
  uint64_t count(FileCall call) const { return counts_[static_cast<size_t>(call)]; }

  Result<std::unique_ptr<ReadableFile>> open(const std::string& path,
                                             bool follow_links = true) const override;
  Result<std::unique_ptr<WritableFile>> create(const std::string& path) const override;
  Result<PathKind> kind(const std::string& path) const override { return inner_.kind(path); }
  Result<std::string> resolve(const std::string& path) const override { return inner_.resolve(path); }
  Result<std::vector<std::string>> list(const std::string& path) const override;
  Status make_directories(const std::string& path) const override;
  Status rename(const std::string& from, const std::string& to) const override;
  Status remove_all(const std::string& path) const override;
  Status sync_directory(const std::string& path) const override;

  /// Counts a call; its failure, if it is the one. For the files that this FileSystem hands out.
  Status step(FileCall call, const std::string& path) const;

 private:
  const FileSystem& inner_;
  FileCall failing_ = FileCall::open;
  uint64_t at_ = 0;  // 0: nothing fails
  int errno_value_ = 0;
  bool stays_ = false;
  mutable std::array<std::atomic<uint64_t>, 10> counts_{};
};

}  // namespace tandem
