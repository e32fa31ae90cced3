#pragma once
// A FileSystem whose calls fail on purpose: for tests of what a full or broken disk leaves behind.

#include <unistd.h>

#include <array>
#include <atomic>
#include <optional>

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
  /// The process ends at once (exit code 137, as if killed) before the k-th file that is closed, folder that
  /// is synced or rename, or right after it.
  void die(uint64_t k, bool after) { death_ = k, after_ = after; }
  /// The disk claims to have this much room.
  void claim_free(uint64_t bytes) { free_bytes_ = bytes; }
  /// How many files were closed, folders synced or renames made so far.
  uint64_t boundaries() const { return boundaries_; }
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
  Result<uint64_t> free_bytes(const std::string& path) const override {
    return free_bytes_ ? Result<uint64_t>(*free_bytes_) : inner_.free_bytes(path);
  }

  /// Makes one call that a kill may come before or after.
  template <class Call>
  Status boundary(const Call& call) const {
    const uint64_t number = ++boundaries_;
    if (number == death_ && !after_) ::_exit(137);
    Status done = call();
    if (number == death_) ::_exit(137);
    return done;
  }
  /// Counts a call; its failure, if it is the one. For the files that this FileSystem hands out.
  Status step(FileCall call, const std::string& path) const;

 private:
  const FileSystem& inner_;
  FileCall failing_ = FileCall::open;
  uint64_t at_ = 0;  // 0: nothing fails
  int errno_value_ = 0;
  bool stays_ = false;
  mutable std::array<std::atomic<uint64_t>, 10> counts_{};
  uint64_t death_ = 0;  // 0: nobody dies
  bool after_ = false;
  std::optional<uint64_t> free_bytes_;
  mutable std::atomic<uint64_t> boundaries_ = 0;
};

}  // namespace tandem
