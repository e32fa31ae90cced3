#pragma once
// SHA-256 beside other work: hashing costs more than converting, and needs nothing of it.

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace tandem {

/// Hashes texts one after the other on a thread of its own. Calls come from one thread at a time. Holds
/// copies of at most 8 MiB that wait, and makes its caller wait for more.
class BackgroundSha256 {
 public:
  BackgroundSha256() = default;
  BackgroundSha256(const BackgroundSha256&) = delete;
  BackgroundSha256& operator=(const BackgroundSha256&) = delete;
  ~BackgroundSha256();

  /// Forgets what was added since the last end().
  void begin();
  void update(std::span<const std::byte> bytes);
  /// What was added since begin() is the whole of `name`.
  void end(const std::string& name);
  /// The hash of a name that was ended, 64 digits; waits for it. Empty for other names.
  std::string hex(std::string_view name);

 private:
  enum class Kind { begin, bytes, end };
  struct Item {
    Kind kind;
    std::vector<std::byte> bytes;
    std::string name;
  };
  void put(Item item);
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;
  std::vector<std::vector<std::byte>> spare_;  // buffers to be used again
  bool busy_ = false, stop_ = false;
  std::map<std::string, std::string, std::less<>> done_;
  std::thread thread_;  // begins with the first item
};

}  // namespace tandem
