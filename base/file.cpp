#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>

namespace tandem {
namespace {

template <class Call>
auto retry(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// An open descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

std::string parent_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

std::string_view describe(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISLNK(mode)) return "a symbolic link";
  return "a device";
}

Error not_regular(const std::string& path, std::string_view what) {
  return unsafe("X6", "is {}, not a regular file", what).at(path);
}

// Opens a regular file and nothing else; O_NONBLOCK, so that a pipe without a writer cannot hold us up.
Result<Descriptor> open_regular(const std::string& path, int flags, std::string_view action,
                                struct stat& status) {
  Descriptor fd(retry([&] { return ::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666); }));
  if (fd.get() < 0) {
    const int reason = errno;
    if (reason == ELOOP) return unsafe("R5", "is a symbolic link, which is not followed here").at(path);
    if (reason == ENXIO) return not_regular(path, "a socket or a pipe");
    if (reason == EISDIR) return not_regular(path, "a directory");
    return file_error(action, path, reason);
  }
  if (::fstat(fd.get(), &status) != 0) return file_error(action, path, errno);
  if (!S_ISREG(status.st_mode)) return not_regular(path, describe(status.st_mode));
  return fd;
}

// A hard link can bring a file of another user into a folder, where it would be read with our rights.
Status not_somebody_elses(const std::string& path, const struct stat& file) {
  if (file.st_nlink < 2) return {};
  struct stat folder {};
  if (::stat(parent_of(path).c_str(), &folder) != 0) return file_error("look at", parent_of(path), errno);
  if (file.st_uid == folder.st_uid) return {};
  return unsafe("X2", "is a hard link to a file of user {}, in a folder of user {}", file.st_uid,
                folder.st_uid)
      .at(path)
      .because("copy the file into the folder");
}

class RealReadable : public ReadableFile {
 public:
  RealReadable(std::string path, Descriptor fd, const struct stat& status)
      : path_(std::move(path)),
        fd_(std::move(fd)),
        size_(static_cast<uint64_t>(status.st_size)),
        has_other_names_(status.st_nlink > 1),
        modified_ns_(status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec) {}
  const std::string& path() const override { return path_; }
  uint64_t size() const override { return size_; }
  bool has_other_names() const override { return has_other_names_; }
  int64_t modified_ns() const override { return modified_ns_; }

  Status read(uint64_t offset, std::span<std::byte> out) const override {
    if (offset > size_ || out.size() > size_ - offset) return cut_off(path_, offset, out.size(), size_);
    for (; !out.empty();) {
      const ssize_t got =
          retry([&] { return ::pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset)); });
      if (got < 0) return file_error("read", path_, errno);
      if (got == 0) return cut_off(path_, offset, out.size(), end_before(offset));
      offset += static_cast<uint64_t>(got);
      out = out.subspan(static_cast<size_t>(got));
    }
    return {};
  }

  std::unique_ptr<FileWindow> window(uint64_t offset, uint64_t size) const override {
    if (offset > size_ || size > size_ - offset) return nullptr;
    return map_window(fd_.get(), path_, offset, size);
  }

 private:
  /// Where a file ends that has nothing at the offset.
  uint64_t end_before(uint64_t offset) const {
    struct stat now {};
    return ::fstat(fd_.get(), &now) == 0 ? std::min(offset, static_cast<uint64_t>(now.st_size)) : offset;
  }

  std::string path_;
  Descriptor fd_;
  uint64_t size_;
  bool has_other_names_;
  int64_t modified_ns_;
};

class RealWritable : public WritableFile {
 public:
  RealWritable(std::string path, Descriptor fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  Status append(std::span<const std::byte> bytes) override {
    if (failure_) return *failure_;
    if (buffer_.size() + bytes.size() > kBuffer) TANDEM_CHECK(flush());
    if (bytes.size() >= kBuffer) return write(bytes);
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    return {};
  }

  Status close() override {
    if (failure_) return *failure_;
    TANDEM_CHECK(flush());
    if (retry([&] { return ::fsync(fd_.get()); }) != 0) return fail(errno);
    if (::close(fd_.release()) != 0 && errno != EINTR) return fail(errno);
    return {};
  }

 private:
  static constexpr size_t kBuffer = 1 << 20;
  static constexpr uint64_t kBegin = 16 << 20;  // what the disk is told to begin with at a time

  Status flush() {
    TANDEM_CHECK(write(buffer_));
    buffer_.clear();
    return {};
  }

  Status write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t put = retry([&] { return ::write(fd_.get(), bytes.data(), bytes.size()); });
      if (put < 0) return fail(errno);
      bytes = bytes.subspan(static_cast<size_t>(put));
      written_ += static_cast<uint64_t>(put);
    }
    // A hint only, so that the disk does not stand still until fsync, which also tells what went wrong on the
    // way.
    if (written_ - begun_ >= kBegin) {
      static_cast<void>(::sync_file_range(fd_.get(), static_cast<off_t>(begun_),
                                          static_cast<off_t>(written_ - begun_), SYNC_FILE_RANGE_WRITE));
      begun_ = written_;
    }
    return {};
  }

  // A file with a hole in it must not look whole later: once failed, failed for good.
  Error fail(int reason) {
    failure_ = file_error("write", path_, reason);
    return *failure_;
  }

  std::string path_;
  Descriptor fd_;
  std::vector<std::byte> buffer_;
  uint64_t written_ = 0;  ///< bytes handed to the system
  uint64_t begun_ = 0;    ///< of those, told to the disk
  std::optional<Error> failure_;
};

class RealFiles : public FileSystem {
 public:
  Result<std::unique_ptr<ReadableFile>> open(const std::string& path, bool follow_links) const override {
    struct stat status {};
    TANDEM_TRY(Descriptor fd, open_regular(path, O_RDONLY | (follow_links ? 0 : O_NOFOLLOW), "open", status));
    TANDEM_CHECK(not_somebody_elses(path, status));
    // A hint only: tensors are read from front to back, and the kernel then reads twice as far ahead.
    static_cast<void>(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL));
    return std::unique_ptr<ReadableFile>(std::make_unique<RealReadable>(path, std::move(fd), status));
  }

  Result<std::unique_ptr<WritableFile>> create(const std::string& path) const override {
    struct stat status {};
    TANDEM_TRY(Descriptor fd, open_regular(path, O_WRONLY | O_CREAT | O_NOFOLLOW, "create", status));
    if (::ftruncate(fd.get(), 0) != 0) return file_error("create", path, errno);
    return std::unique_ptr<WritableFile>(std::make_unique<RealWritable>(path, std::move(fd)));
  }

  Result<PathKind> kind(const std::string& path) const override {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0 && ::lstat(path.c_str(), &status) != 0) {
      if (errno == ENOENT || errno == ENOTDIR) return PathKind::absent;
      return file_error("look at", path, errno);
    }
    if (S_ISREG(status.st_mode)) return PathKind::file;
    return S_ISDIR(status.st_mode) ? PathKind::directory : PathKind::other;
  }

  Result<std::string> resolve(const std::string& path) const override {
    char* real = ::realpath(path.c_str(), nullptr);
    if (!real) return file_error("resolve", path, errno);
    std::string resolved(real);
    std::free(real);
    return resolved;
  }

  Result<std::vector<std::string>> list(const std::string& path) const override {
    DIR* directory = ::opendir(path.c_str());
    if (!directory) return file_error("list", path, errno);
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(directory)) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
      errno = 0;
    }
    const int reason = errno;
    ::closedir(directory);
    if (reason != 0) return file_error("list", path, reason);
    std::sort(names.begin(), names.end());
    return names;
  }

  Status make_directories(const std::string& path) const override {
    std::error_code code;
    std::filesystem::create_directories(path, code);
    if (code) return file_error("make directory", path, code.value());
    return {};
  }

  Status rename(const std::string& from, const std::string& to) const override {
    if (::rename(from.c_str(), to.c_str()) != 0)
      return file_error(fmt::format("rename {} to", from), to, errno);
    return sync_directory(parent_of(to));
  }

  Status remove_all(const std::string& path) const override {
    std::error_code code;
    std::filesystem::remove_all(path, code);
    if (code) return file_error("remove", path, code.value());
    return {};
  }

  Status sync_directory(const std::string& path) const override {
    Descriptor fd(retry([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
    if (fd.get() < 0) return file_error("sync", path, errno);
    // Some network file systems know no fsync of a directory.
    if (retry([&] { return ::fsync(fd.get()); }) != 0 && errno != EINVAL)
      return file_error("sync", path, errno);
    return {};
  }

  Result<uint64_t> free_bytes(const std::string& path) const override {
    struct statvfs space {};
    if (::statvfs(path.c_str(), &space) != 0) return file_error("look at", path, errno);
    return uint64_t{space.f_bavail} * space.f_frsize;
  }
};

// Where the file system of a path is mounted: the topmost ancestor on the same device.
std::string mount_of(const std::string& path) {
  std::error_code code;
  std::filesystem::path at = std::filesystem::absolute(path, code).parent_path();
  struct stat here {
  }, above{};
  while (at.has_relative_path() && ::stat(at.c_str(), &here) == 0 &&
         ::stat(at.parent_path().c_str(), &above) == 0 && here.st_dev == above.st_dev)
    at = at.parent_path();
  return at.string();
}

// What is wrong with a name that should stay in its folder, or nothing.
std::string_view flaw(std::string_view name) {
  constexpr size_t kLongestName = 1024;
  if (name.empty()) return "is empty";
  if (name.size() > kLongestName) return "is longer than 1024 bytes";
  if (name.find('\0') != name.npos) return "has a NUL in it";
  if (name.find('\\') != name.npos) return "has a backslash in it";
  if (name[0] == '/') return "is absolute";
  if (name.size() >= 2 && name[1] == ':') return "starts with a drive";
  while (true) {
    const size_t slash = name.find('/');
    const std::string_view part = name.substr(0, slash);
    if (part.empty()) return "has an empty part";
    if (part == "." || part == "..") return "has a part \".\" or \"..\"";
    if (part.size() > NAME_MAX) return "has a part longer than 255 bytes";
    if (slash == name.npos) return {};
    name.remove_prefix(slash + 1);
  }
}

bool lies_below(std::string_view path, std::string_view folder) {
  return folder == "/" || (path.starts_with(folder) && path.substr(folder.size()).starts_with('/'));
}

// REPO/snapshots/REVISION[/...] may link to REPO/blobs/HASH, directly below blobs.
bool is_blob_of(std::string_view target, std::string_view folder) {
  const size_t snapshots = folder.rfind("/snapshots/");
  if (snapshots == folder.npos) return false;
  const std::string blobs = std::string(folder.substr(0, snapshots)) + "/blobs";
  return lies_below(target, blobs) && target.find('/', blobs.size() + 1) == target.npos;
}

std::string shown(std::string_view name) {
  std::string text(name.substr(0, 80));
  for (char& c : text)
    if (c < 0x20 || c > 0x7e) c = '?';
  return name.size() > 80 ? text + "..." : text;
}

}  // namespace

Error file_error(std::string_view action, const std::string& path, int errno_value) {
  Error error = io_error(action, path, errno_value);
  if (errno_value != ENOSPC && errno_value != EDQUOT) return error;
  const std::string mount = mount_of(path);
  struct statvfs space {};
  const bool known = ::statvfs(mount.c_str(), &space) == 0;
  const uint64_t free_bytes = known ? uint64_t{space.f_bavail} * space.f_frsize : 0;
  return std::move(error).because(fmt::format(
      "the disk mounted at {} is full, {} bytes are free; make room and run again", mount, free_bytes));
}

const FileSystem& real_files() {
  static const RealFiles files;
  return files;
}

Result<std::string> read_text(const FileSystem& files, const std::string& path, uint64_t max_bytes) {
  TANDEM_TRY(const auto file, files.open(path));
  if (file->size() > max_bytes)
    return corrupt("R3", "the file has {} bytes, at most {} are read", file->size(), max_bytes).at(path);
  std::string text(file->size(), '\0');
  TANDEM_CHECK(file->read(0, std::as_writable_bytes(std::span(text))));
  return text;
}

Error cannot_create(Error error) {
  if (error.kind == ErrorKind::missing) error.kind = ErrorKind::exists;
  return error;
}

Status write_text(const FileSystem& files, const std::string& path, std::string_view text) {
  TANDEM_TRY(const auto file, files.create(path));
  TANDEM_CHECK(file->append(std::as_bytes(std::span(text.data(), text.size()))));
  return file->close();
}

Status replace_text(const FileSystem& files, const std::string& path, std::string_view text) {
  TANDEM_TRY(const PathKind kind, files.kind(path));
  if (kind == PathKind::directory) return exists("", "is a folder").at(path);
  const auto real = files.resolve(path);
  const std::filesystem::path target(real.ok() ? real.value() : path);
  const std::string fresh =
      (target.parent_path() / fmt::format(".{}.tandem-{}", target.filename().string(), ::getpid())).string();
  Status done = write_text(files, fresh, text);
  if (done.ok()) done = files.rename(fresh, target.string());
  if (!done.ok()) {
    const Status removed = files.remove_all(fresh);
    (void)removed;  // the first error is the one to tell
    Error error = std::move(done).error();
    if (error.where == fresh) error.where = path;
    return error;
  }
  return {};
}

Status stays_inside(std::string_view name) {
  const std::string_view what = flaw(name);
  if (what.empty()) return {};
  return unsafe("X1", "the name \"{}\" {}: names stay inside their folder", shown(name), what);
}

Result<std::string> path_inside(const FileSystem& files, const std::string& folder, std::string_view name) {
  if (Status plain = stays_inside(name); !plain.ok()) return std::move(plain).error().at(folder);
  std::string path = join(folder, name);
  TANDEM_TRY(const std::string root, files.resolve(folder));
  const auto target = files.resolve(path);
  // What is not there cannot lead anywhere; opening it says so.
  if (!target.ok() && target.error().kind == ErrorKind::missing) return path;
  TANDEM_CHECK(target);
  if (lies_below(target.value(), root) || is_blob_of(target.value(), root)) return path;
  return unsafe("R5", "a symbolic link leads out of the folder, to {}", target.value())
      .at(path)
      .because("copy the file into the folder");
}

std::string absolute_path(const std::string& path) {
  if (path.empty()) return path;
  std::error_code code;
  const std::string full = std::filesystem::absolute(path, code).string();
  return code ? path : full;
}

std::string join(std::string_view folder, std::string_view name) {
  std::string path(folder);
  if (!path.empty() && path.back() != '/') path += '/';
  return path.append(name);
}

}  // namespace tandem
