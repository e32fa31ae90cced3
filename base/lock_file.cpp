#include "base/lock_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/file.h"

namespace tandem {
namespace {

std::string holder(int lock) {
  std::array<char, 24> text{};
  const ssize_t got = ::pread(lock, text.data(), text.size(), 0);
  const std::string pid(text.data(), got > 0 ? static_cast<size_t>(got) : 0);
  const bool digits =
      !pid.empty() && std::all_of(pid.begin(), pid.end(), [](char c) { return c >= '0' && c <= '9'; });
  return digits ? "pid " + pid : "another process";
}

// True if the path still names the open file (and not a later one, after a holder removed it).
bool still_there(int fd, const std::string& path) {
  struct stat open {
  }, named{};
  return ::fstat(fd, &open) == 0 && ::lstat(path.c_str(), &named) == 0 && open.st_ino == named.st_ino &&
         open.st_dev == named.st_dev;
}

}  // namespace

Result<LockFile> LockFile::take(const std::string& path, Use use, const std::string& what) {
  while (true) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (fd < 0) return file_error("create", path, errno);
    if (::flock(fd, (use == Use::alone ? LOCK_EX : LOCK_SH) | LOCK_NB) != 0) {
      const int reason = errno;
      Error error = reason == EWOULDBLOCK ? locked({}, "the output is locked by {}", holder(fd)).at(what)
                                          : file_error("lock", path, reason);
      ::close(fd);
      return error;
    }
    if (!still_there(fd, path)) {
      ::close(fd);
      continue;
    }
    LockFile lock(path, fd, use);
    const std::string pid = std::to_string(::getpid());
    if (::ftruncate(fd, 0) != 0 || ::pwrite(fd, pid.data(), pid.size(), 0) < 0)
      return file_error("write", path, errno);
    return lock;
  }
}

LockFile::LockFile(LockFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)), use_(other.use_) {}

LockFile::~LockFile() {
  if (descriptor_ < 0) return;
  // Of those that share it the last one removes the file: who gets it alone is the last.
  if (use_ == Use::alone || ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) ::unlink(path_.c_str());
  ::close(descriptor_);
}

}  // namespace tandem
