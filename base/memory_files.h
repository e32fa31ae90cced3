#pragma once
// A FileSystem in memory that can lose its power: for tests of what is on the disk after that.
//
// What a disk may hold then is what POSIX promises, and not more:
//   - bytes of a file up to its last close() are there; of later ones some, in whole or as zeros;
//   - names that were made, renamed or removed in a folder are as the calls left them up to the folder's last
//     sync; of later calls some have happened and others have not, whatever their order. A rename
//     has happened or has not, also between two folders.
// Source: POSIX.1-2017 fsync() and rename(); Pillai et al., "All File Systems Are Not Created Equal", OSDI
// 2014.

#include <map>
#include <mutex>
#include <random>

#include "base/file.h"

namespace tandem {

/// Links do not exist here; resolve() gives the path back. Paths are absolute; "/" is there.
/// Calls may come from several threads.
class MemoryFiles : public FileSystem {
 public:
  MemoryFiles();

  /// The power goes before the k-th call from now on that changes anything (the first is 1): it and all
  /// that follow fail with EIO and change nothing. 0: never.
  void stop_at(uint64_t k);
  /// How many calls changed something, or would have, since the last stop_at().
  uint64_t changes() const;

  /// What a power loss at this moment may leave.
  enum class Survival {
    least,  ///< only what was synced
    most,   ///< every call up to now
    some,   ///< of what was not synced, a part that `random` draws
  };
  std::unique_ptr<MemoryFiles> after_power_loss(Survival survival, std::mt19937_64& random) const;

  /// Every file by its path, with its content.
  std::map<std::string, std::string> contents(const std::string& below = "/") const;

  Result<std::unique_ptr<ReadableFile>> open(const std::string& path,
                                             bool follow_links = true) const override;
  Result<std::unique_ptr<WritableFile>> create(const std::string& path) const override;
  Result<PathKind> kind(const std::string& path) const override;
  Result<std::string> resolve(const std::string& path) const override;
  Result<std::vector<std::string>> list(const std::string& path) const override;
  Status make_directories(const std::string& path) const override;
  Status rename(const std::string& from, const std::string& to) const override;
  Status remove_all(const std::string& path) const override;
  Status sync_directory(const std::string& path) const override;
  Result<uint64_t> free_bytes(const std::string&) const override { return uint64_t{1} << 40; }

  struct Node;  // a file or a folder
  /// For the files that this FileSystem hands out.
  Status append(Node& file, const std::string& path, std::span<const std::byte> bytes) const;
  Status sync(Node& file, const std::string& path) const;

 private:
  using Names = std::map<std::string, std::shared_ptr<Node>>;
  /// One name that a call gave to a node, or took away (no node).
  struct Entry {
    std::shared_ptr<Node> folder;
    std::string name;
    std::shared_ptr<Node> node;
  };
  /// What one call did to names.
  using Change = std::vector<Entry>;

  std::shared_ptr<Node> find(const std::string& path) const;
  std::shared_ptr<Node> copy(const Node& node, const std::map<const Node*, Names>& names, Survival survival,
                             std::mt19937_64& random) const;
  Status changes_something(std::string_view action, const std::string& path) const;
  void apply(Change change) const;
  static void set(Names& names, const Entry& entry);
  void sync_names(const std::shared_ptr<Node>& folder) const;
  void remove(const std::shared_ptr<Node>& folder, const std::string& name) const;

  mutable std::mutex mutex_;
  std::shared_ptr<Node> root_;
  mutable std::vector<Change> pending_;
  uint64_t stop_at_ = 0;
  mutable uint64_t changes_ = 0;
};

}  // namespace tandem
