#include "base/place_file.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace tandem {
namespace {

Error cannot(std::string_view action, const std::string& to, int reason) {
  Error error = io_error(action, to, reason);
  if (reason == EXDEV) return std::move(error).because("source and output lie on two disks: --place copy");
  if (reason == EOPNOTSUPP || reason == ENOTTY || reason == EINVAL || reason == EPERM)
    return std::move(error).because("this disk or user may not: --place copy, or another --place");
  return error;
}

Status clone(const std::string& from, const std::string& to) {
  const int source = ::open(from.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (source < 0) return io_error("open", from, errno);
  const int target = ::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  int reason = target < 0 ? errno : 0;
  if (reason == 0 && ::ioctl(target, FICLONE, source) != 0) reason = errno;
  if (reason == 0 && ::fsync(target) != 0) reason = errno;
  if (target >= 0) {
    ::close(target);
    if (reason != 0) ::unlink(to.c_str());
  }
  ::close(source);
  return reason == 0 ? Status{} : Status(cannot("clone to", to, reason));
}

}  // namespace

Status place_file(const std::string& from, const std::string& to, Place place) {
  if (place == Place::reflink) return clone(from, to);
  // A link in a hub cache is followed, so that the name is of the file itself.
  if (::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), AT_SYMLINK_FOLLOW) == 0) return {};
  return cannot("link to", to, errno);
}

}  // namespace tandem
