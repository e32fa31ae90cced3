#include "base/staging.h"

#include <unistd.h>

#include <filesystem>

#include "base/staging_paths.h"

namespace tandem {

Result<StagedFolder> StagedFolder::make(const FileSystem& files, const std::string& output, bool force) {
  TANDEM_TRY(const std::string path, output_path(output));
  StagedFolder folder(files, path);
  if (Status made = files.make_directories(std::filesystem::path(path).parent_path().string()); !made.ok())
    return cannot_create(std::move(made).error());
  TANDEM_TRY(LockFile lock, LockFile::take(beside(path, "lock"), LockFile::Use::alone, path));
  folder.lock_.emplace(std::move(lock));
  TANDEM_CHECK(clean_up_after_the_dead(files, path));
  TANDEM_TRY(const PathKind kind, files.kind(path));
  if (kind != PathKind::absent && !force) return already_there(path);
  folder.staging_ = beside(path, std::to_string(::getpid()));
  TANDEM_CHECK(files.make_directories(folder.staging_));
  return folder;
}

StagedFolder::StagedFolder(StagedFolder&& other) noexcept
    : files_(other.files_),
      output_(std::move(other.output_)),
      staging_(std::exchange(other.staging_, {})),
      lock_(std::move(other.lock_)) {
  other.lock_.reset();
}

StagedFolder::~StagedFolder() {
  // Nobody is left to tell; what remains is stale, and the next run removes it.
  if (!staging_.empty()) (void)files_->remove_all(staging_);
}

Status StagedFolder::commit(bool force) {
  TANDEM_CHECK(sync_tree(*files_, staging_));
  const std::string old = beside(output_, std::to_string(::getpid()) + "-old");
  TANDEM_CHECK(put_in_place(*files_, staging_, output_, old, force));
  staging_.clear();
  TANDEM_TRY(const PathKind left, files_->kind(old));
  return left == PathKind::absent ? Status{} : files_->remove_all(old);
}

}  // namespace tandem
