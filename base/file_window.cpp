#include "base/file_window.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>

#ifndef MADV_POPULATE_READ  // Linux 5.14
#define MADV_POPULATE_READ 22
#endif

namespace tandem {
namespace {

/// A mapping that may lose its file.
struct Watched {
  std::atomic<bool> taken{false};
  std::atomic<uintptr_t> begin{0}, end{0};  ///< of whole pages; begin is 0 while there is no mapping
  std::atomic<uint64_t> uses{0};            ///< so far: begin and end belong together while it stays the same
  std::atomic<bool> lost{false};
};
static_assert(std::atomic<uintptr_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free,
              "touched in a signal handler");

std::array<Watched, 64> watched;
struct sigaction before_us {};

uintptr_t page_size() {
  static const auto size = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

/// Bytes of a mapping that the file has no longer: zeros take the place of the rest of it, and whoever uses
/// them finds out by intact().
void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int kept_errno = errno;
  const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
  for (Watched& mapping : watched) {
    const uint64_t use = mapping.uses;
    const uintptr_t begin = mapping.begin, end = mapping.end;
    if (begin == 0 || at < begin || at >= end || mapping.uses != use) continue;
    mapping.lost = true;
    const uintptr_t page = at / page_size() * page_size();
    void* const zeros = ::mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    errno = kept_errno;
    if (zeros != MAP_FAILED) return;
    break;
  }
  if ((before_us.sa_flags & SA_SIGINFO) != 0) return before_us.sa_sigaction(signal, info, context);
  if (before_us.sa_handler != SIG_DFL && before_us.sa_handler != SIG_IGN) return before_us.sa_handler(signal);
  ::signal(signal, SIG_DFL);  // nobody's: it ends the process, as it would have without us
  ::raise(signal);
}

bool handle_bus_errors() {
  static const bool done = [] {
    (void)page_size();
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO;
    ::sigemptyset(&action.sa_mask);
    return ::sigaction(SIGBUS, &action, &before_us) == 0;
  }();
  return done;
}

Watched* take_place() {
  for (Watched& mapping : watched)
    if (!mapping.taken.exchange(true)) return &mapping;
  return nullptr;
}

class MappedWindow : public FileWindow {
 public:
  MappedWindow(int descriptor, std::string path, uint64_t offset, uint64_t size)
      : descriptor_(descriptor), path_(std::move(path)), offset_(offset), size_(size) {}
  ~MappedWindow() override {
    if (!place_) return;
    const uintptr_t begin = place_->begin.exchange(0);
    if (begin != 0) ::munmap(reinterpret_cast<void*>(begin), place_->end - begin);
    place_->taken = false;
  }

  bool map() {
    place_ = take_place();
    if (!place_) return false;
    const uint64_t aside = offset_ % page_size();
    void* const mapped = ::mmap(nullptr, aside + size_, PROT_READ, MAP_SHARED, descriptor_,
                                static_cast<off_t>(offset_ - aside));
    if (mapped == MAP_FAILED) return false;
    ::madvise(mapped, aside + size_, MADV_SEQUENTIAL);  // advice: what comes next is read ahead
    const auto begin = reinterpret_cast<uintptr_t>(mapped);
    bytes_ = static_cast<const std::byte*>(mapped) + aside;
    ++place_->uses;
    place_->lost = false;
    place_->end = begin + (aside + size_ + page_size() - 1) / page_size() * page_size();
    place_->begin = begin;
    return true;
  }

  const std::byte* bytes() const override { return bytes_; }

  Status load(uint64_t first, uint64_t count) override {
    const auto at = reinterpret_cast<uintptr_t>(bytes_) + first;
    const uintptr_t page = at / page_size() * page_size();
    while (::madvise(reinterpret_cast<void*>(page), at + count - page, MADV_POPULATE_READ) != 0) {
      if (errno == EINTR || errno == EAGAIN) continue;
      if (errno == EFAULT || errno == EIO || errno == EHWPOISON) return gone(first, count);
      break;  // an older system: bytes come as they are used
    }
    return intact();
  }

  Status intact() const override {
    struct stat now {};
    if (::fstat(descriptor_, &now) != 0) return io_error("read", path_, errno);
    if (place_->lost || static_cast<uint64_t>(now.st_size) < offset_ + size_)  // a part of a page: no signal
      return gone(0, size_);
    return {};
  }

 private:
  Error gone(uint64_t first, uint64_t count) const {
    struct stat now {};
    if (::fstat(descriptor_, &now) != 0) return io_error("read", path_, errno);
    const auto end = static_cast<uint64_t>(now.st_size);
    return end < offset_ + size_ ? cut_off(path_, offset_ + first, count, end) : io_error("read", path_, EIO);
  }

  Watched* place_ = nullptr;
  const int descriptor_;
  const std::string path_;
  const uint64_t offset_, size_;
  const std::byte* bytes_ = nullptr;
};

}  // namespace

std::unique_ptr<FileWindow> map_window(int descriptor, const std::string& path, uint64_t offset,
                                       uint64_t size) {
  if (size == 0 || !handle_bus_errors()) return nullptr;
  auto window = std::make_unique<MappedWindow>(descriptor, path, offset, size);
  if (!window->map()) return nullptr;
  return window;
}

Error cut_off(const std::string& path, uint64_t offset, uint64_t wanted, uint64_t end) {
  return corrupt("file_c1", "{} bytes expected here, the file ends at byte {}", wanted, end)
      .at(path, offset)
      .because("a download that was cut off?");
}

}  // namespace tandem
