#include "base/work_folder.h"

#include <unistd.h>

#include <filesystem>
#include <random>
#include <thread>

#include "base/staging_paths.h"

namespace tandem {
namespace {

constexpr uint64_t kMaxNoteBytes = 1ull << 30;
constexpr const char* kPlan = "plan";
constexpr const char* kOut = "out";
constexpr const char* kDone = "done";
constexpr const char* kTmp = "tmp";
constexpr const char* kOld = "old";
constexpr const char* kKept = "kept";

}  // namespace

Result<WorkFolder> WorkFolder::open(const FileSystem& files, const std::string& output, LockFile::Use use) {
  TANDEM_TRY(const std::string path, output_path(output));
  if (Status made = files.make_directories(std::filesystem::path(path).parent_path().string()); !made.ok())
    return cannot_create(std::move(made).error());
  TANDEM_TRY(LockFile lock, LockFile::take(beside(path, "lock"), use, path));
  return WorkFolder(files, path, beside(path, "work"), std::move(lock));
}

Result<WorkFolder> WorkFolder::open_alone(const FileSystem& files, const std::string& output,
                                          const std::string& plan, bool force) {
  return open_alone(files, output, plan, force, false);
}

Result<WorkFolder> WorkFolder::open_begun(const FileSystem& files, const std::string& output,
                                          const std::string& plan, bool force) {
  return open_alone(files, output, plan, force, true);
}

Result<WorkFolder> WorkFolder::open_alone(const FileSystem& files, const std::string& output,
                                          const std::string& plan, bool force, bool begun) {
  TANDEM_TRY(WorkFolder work, open(files, output, LockFile::Use::alone));
  TANDEM_CHECK(clean_up_after_the_dead(files, work.output_));
  TANDEM_TRY(const PathKind before, files.kind(work.work_));
  TANDEM_TRY(const PathKind old, work.kind(kOld));
  TANDEM_TRY(PathKind target, files.kind(work.output_));
  if (old != PathKind::absent && target == PathKind::absent) {
    TANDEM_CHECK(files.rename(join(work.work_, kOld), work.output_));
    TANDEM_TRY(target, files.kind(work.output_));
  }
  TANDEM_TRY(const std::optional<std::string> known, work.text(kPlan));
  if (known == plan) {
    TANDEM_TRY(const PathKind out, work.kind(kOut));
    work.finished_ = out == PathKind::absent && target != PathKind::absent;
  }
  if (work.finished_) return work;
  if (target != PathKind::absent && !force) return already_there(work.output_);
  if (begun && known != plan) return missing("work_c2", "no task of this plan has been run").at(work.output_);
  if (before != PathKind::absent && known != plan) {
    TANDEM_TRY(const std::vector<std::string> kept, WorkFolder::kept(files, output));
    if (!kept.empty())
      return exists("work_c3", "another conversion into this output has deleted parts of its source")
          .at(work.work_)
          .because("the command that began it goes on; what it made lies in this folder");
    work.replaced_ = known.has_value();
    TANDEM_CHECK(files.remove_all(work.work_));
  }
  TANDEM_TRY(const PathKind tmp, work.kind(kTmp));
  if (tmp != PathKind::absent) TANDEM_CHECK(files.remove_all(join(work.work_, kTmp)));
  if (Status started = work.start(plan); !started.ok()) {
    if (known != plan) (void)work.clean();  // nothing of worth is in it; the first error is the one to tell
    return std::move(started).error();
  }
  return work;
}

Result<WorkFolder> WorkFolder::open_shared(const FileSystem& files, const std::string& output,
                                           const std::string& plan, bool force) {
  TANDEM_TRY(WorkFolder work, open(files, output, LockFile::Use::shared));
  TANDEM_TRY(const PathKind target, files.kind(work.output_));
  if (target != PathKind::absent && !force) return already_there(work.output_);
  TANDEM_CHECK(work.start(plan));
  TANDEM_TRY(const std::optional<std::string> known, work.text(kPlan));
  if (known == plan) return work;
  return exists("work_c1", "another plan is being carried out here")
      .at(work.work_)
      .because("finish it, or remove the folder");
}

// out/ is there before the plan: a plan without out/ is one that was carried out. Processes that start at
// once wait for each other here, so that there is one plan.
Status WorkFolder::start(const std::string& plan) const {
  for (const char* name : {kOut, kDone, kTmp}) TANDEM_CHECK(files_->make_directories(join(work_, name)));
  for (int tries = 0;; ++tries) {
    TANDEM_TRY(const PathKind there, kind(kPlan));
    if (there != PathKind::absent) return {};
    const auto lock = hold(kPlan);
    if (lock.ok()) {
      TANDEM_TRY(const PathKind now, kind(kPlan));
      if (now != PathKind::absent) return {};
      TANDEM_CHECK(files_->sync_directory(work_));  // out/ outlives a power loss that the plan outlives
      return put(kPlan, plan);
    }
    if (lock.error().kind != ErrorKind::locked || tries == 1000) return lock.error();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

Result<std::optional<std::string>> WorkFolder::text(const std::string& name) const {
  TANDEM_TRY(const PathKind there, kind(name));
  if (there == PathKind::absent) return std::optional<std::string>();
  TANDEM_TRY(std::string found, read_text(*files_, join(work_, name), kMaxNoteBytes));
  return std::optional(std::move(found));
}

Result<std::optional<std::string>> WorkFolder::note(const std::string& name) const {
  return text(join(kDone, name));
}

Status WorkFolder::put(const std::string& name, std::string_view text) const {
  TANDEM_TRY(const std::string file, fresh("note"));
  TANDEM_CHECK(write_text(*files_, file, text));
  return files_->rename(file, join(work_, name));
}

Status WorkFolder::put_note(const std::string& name, std::string_view text) const {
  return put(join(kDone, name), text);
}

Status WorkFolder::keep(const std::string& name, std::string_view text) const {
  TANDEM_CHECK(files_->make_directories(join(work_, kKept)));
  TANDEM_CHECK(files_->sync_directory(work_));
  return put(join(kKept, name), text);
}

Status WorkFolder::sync() const {
  TANDEM_CHECK(sync_tree(*files_, join(work_, kOut)));
  TANDEM_CHECK(files_->sync_directory(work_));
  return files_->sync_directory(std::filesystem::path(work_).parent_path().string());
}

Result<std::vector<std::string>> WorkFolder::kept(const FileSystem& files, const std::string& output) {
  TANDEM_TRY(const std::string path, output_path(output));
  const std::string folder = join(beside(path, "work"), kKept);
  TANDEM_TRY(const PathKind there, files.kind(folder));
  std::vector<std::string> paths;
  if (there != PathKind::directory) return paths;
  TANDEM_TRY(const std::vector<std::string> names, files.list(folder));
  for (const std::string& name : names) paths.push_back(join(folder, name));
  return paths;
}

Result<std::string> WorkFolder::fresh(const std::string& name) const {
  std::random_device random;  // processes on several machines may have one pid
  const std::string folder = join(work_, kTmp);
  TANDEM_CHECK(files_->make_directories(folder));
  return join(folder, fmt::format("{}-{}-{:08x}", name, ::getpid(), random()));
}

Status WorkFolder::put_file(const std::string& fresh, const std::string& name) const {
  const std::string target = join(join(work_, kOut), name);
  TANDEM_CHECK(files_->make_directories(std::filesystem::path(target).parent_path().string()));
  return files_->rename(fresh, target);
}

Result<LockFile> WorkFolder::hold(const std::string& name) const {
  return LockFile::take(join(join(work_, kTmp), name + ".lock"), LockFile::Use::alone, join(output_, name));
}

Status WorkFolder::commit(bool force) {
  const std::string staged = join(work_, kOut);
  TANDEM_CHECK(sync_tree(*files_, staged));
  TANDEM_CHECK(put_in_place(*files_, staged, output_, join(work_, kOld), force));
  finished_ = true;
  return clean();
}

// Under another name first: half of a work folder must not be taken for a whole one.
Status WorkFolder::clean() const {
  const std::string trash = beside(output_, std::to_string(::getpid()));
  TANDEM_CHECK(files_->remove_all(trash));
  TANDEM_CHECK(files_->rename(work_, trash));
  return files_->remove_all(trash);
}

}  // namespace tandem
