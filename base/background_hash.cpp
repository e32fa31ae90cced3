#include "base/background_hash.h"

#include <algorithm>
#include <memory>

#include "base/hash.h"

namespace tandem {
namespace {

constexpr size_t kPiece = 1 << 20;
constexpr size_t kWaiting = 8;  // pieces

}  // namespace

BackgroundSha256::~BackgroundSha256() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void BackgroundSha256::begin() { put({Kind::begin, {}, {}}); }

void BackgroundSha256::update(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), kPiece));
    std::vector<std::byte> copy;
    {
      const std::lock_guard lock(mutex_);
      if (!spare_.empty()) {
        copy = std::move(spare_.back());
        spare_.pop_back();
      }
    }
    copy.assign(piece.begin(), piece.end());
    put({Kind::bytes, std::move(copy), {}});
    bytes = bytes.subspan(piece.size());
  }
}

void BackgroundSha256::end(const std::string& name) { put({Kind::end, {}, name}); }

std::string BackgroundSha256::hex(std::string_view name) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty() && !busy_; });
  const auto found = done_.find(name);
  return found == done_.end() ? "" : found->second;
}

void BackgroundSha256::put(Item item) {
  std::unique_lock lock(mutex_);
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  changed_.wait(lock, [this] { return queue_.size() < kWaiting; });
  queue_.push_back(std::move(item));
  changed_.notify_all();
}

void BackgroundSha256::work() {
  auto hash = std::make_unique<Sha256>();
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
    if (stop_) return;
    Item item = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    changed_.notify_all();
    std::string hex;
    if (item.kind == Kind::bytes) {
      hash->update(item.bytes);
    } else {
      if (item.kind == Kind::end) hex = hash->hex();
      hash = std::make_unique<Sha256>();
    }
    lock.lock();
    busy_ = false;
    if (item.kind == Kind::bytes) spare_.push_back(std::move(item.bytes));
    if (item.kind == Kind::end) done_[item.name] = std::move(hex);
    changed_.notify_all();
  }
}

}  // namespace tandem
