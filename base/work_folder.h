#pragma once
// An output folder that is made in steps, goes on after a kill, and appears whole.
//
// Beside the output OUT lie, while the work goes on:
//   .OUT.tandem-lock       held alone by who does all of it, shared by those who do steps of it
//   .OUT.tandem-work/
//     plan                 what is made, word for word; another plan starts from nothing
//     out/                 files of the output, each whole (written in tmp/, synced, renamed)
//     done/NAME            a note for each step, written after what it vouches for
//     kept/                what cannot be had again: it keeps the folder for this plan alone
//     tmp/                 files that are being written
//     old                  the output that gives way, for an instant
// At the end out/ is renamed to OUT. A kill at any point leaves either the old output or the new one, and all
// steps that have a note.

#include <optional>

#include "base/file.h"
#include "base/lock_file.h"

namespace tandem {

class WorkFolder {
 public:
  /// Takes the output for this process alone. What a killed run left of the same plan stays, anything else is
  /// removed. `files` must outlive it. Errors: exists, unless force; locked, if another process has it;
  /// invalid (staging_c1) for a path without a name; io.
  static Result<WorkFolder> open_alone(const FileSystem& files, const std::string& output,
                                       const std::string& plan, bool force);
  /// Shares the output with other processes that do steps of the same plan. Errors: those above; work_c1
  /// (exists) another plan is being carried out.
  static Result<WorkFolder> open_shared(const FileSystem& files, const std::string& output,
                                        const std::string& plan, bool force);

  /// Takes an output that others have worked on, for the last step. Errors: those of open_alone; work_c2
  /// (missing) nobody has worked on this plan.
  static Result<WorkFolder> open_begun(const FileSystem& files, const std::string& output,
                                       const std::string& plan, bool force);

  WorkFolder(WorkFolder&&) noexcept = default;
  WorkFolder& operator=(WorkFolder&&) = delete;

  const std::string& output() const { return output_; }
  const std::string& path() const { return work_; }
  /// Where files of the output lie until the end; of a finished one, the output itself.
  std::string out() const { return finished_ ? output_ : join(work_, "out"); }
  /// A run of the same plan had put the output in place when it was killed: only clean() is left to do.
  bool finished() const { return finished_; }
  /// What an earlier run left was of another plan, and was removed.
  bool replaced() const { return replaced_; }

  /// The note of a step, or nothing. Errors: io.
  Result<std::optional<std::string>> note(const std::string& name) const;
  /// Puts a note in place, whole. The step's files must be in place.
  Status put_note(const std::string& name, std::string_view text) const;
  /// Puts a text in kept/, whole: what no other plan may remove. From then on the folder is this plan's until
  /// the output is in place.
  Status keep(const std::string& name, std::string_view text) const;
  /// Syncs the folders: what was put so far outlives a power loss.
  Status sync() const;
  /// The paths of what is kept for an output; nothing if nobody works on it. Takes no lock.
  static Result<std::vector<std::string>> kept(const FileSystem& files, const std::string& output);
  /// A name in tmp/ that no other process uses.
  Result<std::string> fresh(const std::string& name) const;
  /// Puts a file, closed, at a path inside out/.
  Status put_file(const std::string& fresh, const std::string& name) const;
  /// Holds one step, so that two processes do not do the same work. Errors: locked.
  Result<LockFile> hold(const std::string& name) const;

  /// Syncs every folder of out/ and renames it into place, then cleans. With force an old output gives way.
  /// Only for who has the output alone. Errors: exists, unless force; io.
  Status commit(bool force);
  /// Removes the work folder. Killed meanwhile it leaves .OUT.tandem-PID, which the next run removes.
  Status clean() const;

 private:
  WorkFolder(const FileSystem& files, std::string output, std::string work, LockFile lock)
      : files_(&files), output_(std::move(output)), work_(std::move(work)), lock_(std::move(lock)) {}
  static Result<WorkFolder> open(const FileSystem& files, const std::string& output, LockFile::Use use);
  static Result<WorkFolder> open_alone(const FileSystem& files, const std::string& output,
                                       const std::string& plan, bool force, bool begun);
  Result<PathKind> kind(const std::string& name) const { return files_->kind(join(work_, name)); }
  Result<std::optional<std::string>> text(const std::string& name) const;
  Status start(const std::string& plan) const;
  Status put(const std::string& name, std::string_view text) const;

  const FileSystem* files_;
  std::string output_, work_;
  LockFile lock_;
  bool finished_ = false, replaced_ = false;
};

}  // namespace tandem
