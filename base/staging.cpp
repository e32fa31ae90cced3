#include "base/staging.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOld = "-old";

Error already_there(const std::string& output) {
  return exists({}, "the output exists already").at(output).because("--force replaces it");
}

// "PID" or "PID-old".
bool is_ours(std::string_view suffix) {
  if (suffix.ends_with(kOld)) suffix.remove_suffix(kOld.size());
  return !suffix.empty() &&
         std::all_of(suffix.begin(), suffix.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::string holder(int lock) {
  std::array<char, 24> text{};
  const ssize_t got = ::pread(lock, text.data(), text.size(), 0);
  const std::string pid(text.data(), got > 0 ? static_cast<size_t>(got) : 0);
  return is_ours(pid) ? "pid " + pid : "another process";
}

// True if the path still names the open file (and not a later one, after a holder removed it).
bool still_there(int fd, const std::string& path) {
  struct stat open {
  }, named{};
  return ::fstat(fd, &open) == 0 && ::lstat(path.c_str(), &named) == 0 && open.st_ino == named.st_ino &&
         open.st_dev == named.st_dev;
}

Status sync_tree(const FileSystem& files, const std::string& root) {
  std::vector<std::string> open{root};
  while (!open.empty()) {
    const std::string folder = std::move(open.back());
    open.pop_back();
    TANDEM_CHECK(files.sync_directory(folder));
    TANDEM_TRY(const auto names, files.list(folder));
    for (const std::string& name : names) {
      TANDEM_TRY(const PathKind kind, files.kind(join(folder, name)));
      if (kind == PathKind::directory) open.push_back(join(folder, name));
    }
  }
  return {};
}

}  // namespace

std::string StagedFolder::sibling(std::string_view suffix) const {
  const fs::path output(output_);
  return (output.parent_path() / fmt::format(".{}.tandem-{}", output.filename().string(), suffix)).string();
}

Result<StagedFolder> StagedFolder::make(const FileSystem& files, const std::string& output, bool force) {
  // ".." is left to the system: behind a link it does not lead back.
  std::string_view trimmed = output;
  while (trimmed.size() > 1 && (trimmed.ends_with('/') || trimmed.ends_with("/."))) trimmed.remove_suffix(1);
  fs::path path = trimmed;
  const std::string name = path.filename().string();
  if (name.empty() || name == "." || name == "..")
    return invalid("staging_c1", "the output \"{}\" has no name of its own", output);
  if (!path.has_parent_path()) path = "." / path;

  StagedFolder folder(files, path.string());
  if (Status made = files.make_directories(path.parent_path().string()); !made.ok())
    return cannot_create(std::move(made).error());
  TANDEM_CHECK(folder.lock());
  TANDEM_CHECK(folder.clean_up_after_the_dead());
  TANDEM_TRY(const PathKind kind, files.kind(folder.output_));
  if (kind != PathKind::absent && !force) return already_there(folder.output_);
  folder.staging_ = folder.sibling(std::to_string(::getpid()));
  TANDEM_CHECK(files.make_directories(folder.staging_));
  return folder;
}

StagedFolder::StagedFolder(StagedFolder&& other) noexcept
    : files_(other.files_),
      output_(std::move(other.output_)),
      staging_(std::exchange(other.staging_, {})),
      lock_(std::exchange(other.lock_, -1)) {}

StagedFolder::~StagedFolder() {
  // Nobody is left to tell; what remains is stale, and the next run removes it.
  if (!staging_.empty()) (void)files_->remove_all(staging_);
  if (lock_ < 0) return;
  ::unlink(sibling("lock").c_str());
  ::close(lock_);
}

Status StagedFolder::lock() {
  const std::string path = sibling("lock");
  while (lock_ < 0) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (fd < 0) return file_error("create", path, errno);
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
      const int reason = errno;
      Error error = reason == EWOULDBLOCK ? locked({}, "the output is locked by {}", holder(fd)).at(output_)
                                          : file_error("lock", path, reason);
      ::close(fd);
      return error;
    }
    if (still_there(fd, path))
      lock_ = fd;
    else
      ::close(fd);
  }
  const std::string pid = std::to_string(::getpid());
  if (::ftruncate(lock_, 0) != 0 || ::pwrite(lock_, pid.data(), pid.size(), 0) < 0)
    return file_error("write", path, errno);
  return {};
}

Status StagedFolder::clean_up_after_the_dead() {
  const std::string parent = fs::path(output_).parent_path().string();
  const std::string prefix = fs::path(sibling("")).filename().string();
  TANDEM_TRY(const auto names, files_->list(parent));
  for (const std::string& name : names) {
    if (!name.starts_with(prefix) || !is_ours(std::string_view(name).substr(prefix.size()))) continue;
    TANDEM_TRY(const PathKind kind, files_->kind(output_));
    if (name.ends_with(kOld) && kind == PathKind::absent) {
      TANDEM_CHECK(files_->rename(join(parent, name), output_));
    } else {
      TANDEM_CHECK(files_->remove_all(join(parent, name)));
    }
  }
  return {};
}

Status StagedFolder::commit(bool force) {
  TANDEM_CHECK(sync_tree(*files_, staging_));
  TANDEM_TRY(const PathKind kind, files_->kind(output_));
  if (kind == PathKind::absent) {
    TANDEM_CHECK(files_->rename(staging_, output_));
    staging_.clear();
    return {};
  }
  if (!force) return already_there(output_);
  const std::string old = sibling(std::to_string(::getpid()) + std::string(kOld));
  Status moved = files_->rename(output_, old);
  if (moved) moved = files_->rename(staging_, output_);
  if (moved) {
    staging_.clear();
    return files_->remove_all(old);
  }
  // Also a rename that was done but not synced comes here: look, rather than guess.
  TANDEM_TRY(const PathKind now, files_->kind(output_));
  if (now == PathKind::absent && !files_->rename(old, output_))
    return std::move(moved).error().because(fmt::format("the old output is kept in {}", old));
  return moved;
}

}  // namespace tandem
