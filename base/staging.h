#pragma once
// An output folder that appears whole or not at all, and that one process at a time may make.
//
// Beside the output OUT lie, while the work goes on:
//   .OUT.tandem-lock     locked (flock) by the process that works on OUT; holds its pid
//   .OUT.tandem-PID      the staging folder, renamed to OUT by commit()
//   .OUT.tandem-PID-old  what commit() moved out of the way, for an instant
// The lock vanishes with its process, so what a killed one left behind is known to be stale: the next one
// removes it (or, if it was killed between commit()'s two renames, puts the old output back).

#include "base/file.h"
#include "base/lock_file.h"

namespace tandem {

class StagedFolder {
 public:
  /// Locks the output and makes an empty staging folder. `files` must outlive it.
  /// Errors: exists, unless force; locked, if another process has it; invalid (staging_c1) for a path without
  /// a name
  /// ("/", "a/.."); io.
  static Result<StagedFolder> make(const FileSystem& files, const std::string& output, bool force);

  StagedFolder(StagedFolder&& other) noexcept;
  StagedFolder& operator=(StagedFolder&&) = delete;
  /// Removes the staging folder, unless commit() succeeded.
  ~StagedFolder();

  /// The folder to write into, and the one it becomes.
  const std::string& path() const { return staging_; }
  const std::string& output() const { return output_; }

  /// Syncs every folder in it and renames it into place. With force an old output gives way; when anything
  /// fails it is still there. Errors: exists, unless force; io.
  Status commit(bool force);

 private:
  StagedFolder(const FileSystem& files, std::string output) : files_(&files), output_(std::move(output)) {}

  const FileSystem* files_;
  std::string output_;
  std::string staging_;  // empty: none, or committed
  std::optional<LockFile> lock_;
};

}  // namespace tandem
