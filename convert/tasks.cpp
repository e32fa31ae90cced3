#include "convert/tasks.h"

#include <algorithm>

#include "base/signals.h"
#include "base/work_folder.h"
#include "convert/direction.h"
#include "convert/give_way.h"
#include "convert/match_report.h"
#include "convert/read_back.h"
#include "convert/retire_source.h"
#include "convert/task_note.h"

namespace tandem {
namespace {

std::string task_name(size_t task) { return fmt::format("{:05}.json", task); }

/// One planned conversion in its work folder.
class Job {
 public:
  Job(const FileSystem& files, const Conversion& conversion, const ConversionPlan& plan,
      const OnProgress& progress)
      : files_(files),
        conversion_(conversion),
        plan_(plan),
        progress_(progress),
        identity_(identity(plan)),
        id_(sha256_hex(as_bytes(identity_))) {}

  const std::string& identity_text() const { return identity_; }
  size_t size() const { return conversion_.shards().size(); }

  /// The manifest of a task that is done: it is whole, and the file is there.
  Result<std::optional<WrittenShard>> done(const WorkFolder& work, size_t task) const {
    TANDEM_TRY(const auto text, work.note(task_name(task)));
    if (!text) return std::optional<WrittenShard>();
    auto written = written_from_text(*text, conversion_.shards()[task], task, id_);
    if (!written.ok()) return std::optional<WrittenShard>();
    const std::string path = join(work.out(), conversion_.shards()[task].file);
    TANDEM_TRY(const PathKind kind, files_.kind(path));
    if (kind != PathKind::file) return std::optional<WrittenShard>();
    TANDEM_TRY(const auto file, files_.open(path));
    if (file->size() != written.value().sums.bytes) return std::optional<WrittenShard>();
    return std::optional(std::move(written).value());
  }

  Result<WrittenShard> make(const WorkFolder& work, size_t task) {
    const DataShard& shard = conversion_.shards()[task];
    TANDEM_TRY(const std::string fresh, work.fresh(fmt::format("{:05}", task)));
    auto written = write(fresh, task);
    Status placed = written.ok() ? work.put_file(fresh, shard.file) : Status(written.error());
    if (placed) placed = work.put_note(task_name(task), to_text(written.value(), shard, task, id_));
    if (placed) return written;
    (void)files_.remove_all(fresh);  // the first error is the one to tell
    return std::move(placed).error();
  }

  /// The same into nothing.
  Result<WrittenShard> make_nothing(size_t task) {
    return conversion_.write(task, nullptr, [this](uint64_t bytes) { return on_bytes(bytes); });
  }

  /// Bytes of new disk that a task takes.
  uint64_t disk(size_t task) const {
    return conversion_.linked_file(task).empty() ? conversion_.shards()[task].bytes : 0;
  }

  void already(size_t task) { done_ += tensor_bytes(task); }
  void count(size_t task) { total_ += tensor_bytes(task); }

  /// Refuses to begin what the disk has no room for (F1).
  Status room_for(const WorkFolder& work, uint64_t bytes) const {
    TANDEM_TRY(const uint64_t room, files_.free_bytes(work.path()));
    if (bytes <= room) return {};
    Error error{ErrorKind::io,
                "convert_c9",
                fmt::format("{} bytes are to be written, and {} are free on the disk", bytes, room),
                work.output(),
                {},
                "make room, or name an output on another disk"};
    return error;
  }

 private:
  Result<WrittenShard> write(const std::string& path, size_t task) {
    if (const std::string linked = conversion_.linked_file(task); !linked.empty()) {
      TANDEM_CHECK(place_file(linked, path, plan_.options.place));
      return make_nothing(task);
    }
    TANDEM_TRY(auto file, files_.create(path));
    return conversion_.write(task, std::move(file), [this](uint64_t bytes) { return on_bytes(bytes); });
  }

  Status on_bytes(uint64_t bytes) {
    done_ += bytes;
    if (interrupted()) return unavailable("", "stopped by a signal");
    return progress_ ? progress_(done_, total_) : Status{};
  }

  uint64_t tensor_bytes(size_t task) const {
    uint64_t bytes = 0;
    for (const TensorInfo& info : conversion_.shards()[task].tensors)
      bytes += byte_count(info.dtype, info.shape).value();
    return bytes;
  }

  const FileSystem& files_;
  const Conversion& conversion_;
  const ConversionPlan& plan_;
  const OnProgress& progress_;
  std::string identity_, id_;
  uint64_t done_ = 0, total_ = 0;  // bytes of tensor data
};

/// True for errors after which the same command may succeed.
bool may_go_on(ErrorKind kind) {
  return kind == ErrorKind::io || kind == ErrorKind::unavailable || kind == ErrorKind::memory ||
         kind == ErrorKind::locked || kind == ErrorKind::missing;
}

/// All tasks, those that are done left out.
Result<std::vector<WrittenShard>> make_all(Job& job, const WorkFolder& work, const Conversion& conversion,
                                           SourceRetirement* retirement) {
  std::vector<std::optional<WrittenShard>> found;
  std::vector<bool> done;
  uint64_t bytes = 0;
  for (size_t task = 0; task < job.size(); ++task) {
    TANDEM_TRY(auto written, job.done(work, task));
    job.count(task);
    if (written)
      job.already(task);
    else
      bytes += job.disk(task);
    done.push_back(written.has_value());
    found.push_back(std::move(written));
  }
  if (retirement) bytes = disk_beside_source(conversion, done);
  TANDEM_CHECK(job.room_for(work, bytes + conversion.rest_bytes()));
  std::vector<WrittenShard> all;
  for (size_t task = 0; task < job.size(); ++task) {
    if (!found[task]) {
      TANDEM_TRY(found[task], job.make(work, task));
    }
    if (retirement) TANDEM_CHECK(retirement->done(task, *found[task]));
    all.push_back(std::move(*found[task]));
  }
  return all;
}

/// Everything after the tasks, up to the output in place.
Result<ConvertReport> complete(const FileSystem& files, Conversion& conversion, const ConversionPlan& plan,
                               WorkFolder& work, const std::vector<WrittenShard>& written) {
  ConvertReport report = conversion.report(written);
  TANDEM_CHECK(no_overflow(report.tensors));
  TANDEM_TRY(const std::vector<InputFile> now, look_again(files, plan.inputs));
  TANDEM_CHECK(same_inputs(plan.inputs, now));
  TANDEM_CHECK(conversion.finish(files, work.out(), written));
  TANDEM_CHECK(work.commit(plan.options.force));
  return report;
}

size_t tasks_done(const Job& job, const WorkFolder& work) {
  size_t count = 0;
  for (size_t task = 0; task < job.size(); ++task) {
    const auto written = job.done(work, task);
    count += written.ok() && written.value();
  }
  return count;
}

/// A failed conversion leaves nothing, or finished tasks that the same command goes on from; the error says
/// which.
Error after_failure(Error error, const FileSystem& files, const Job& job, const WorkFolder& work) {
  if (work.finished()) return error;
  const auto kept = WorkFolder::kept(files, work.output());
  if (!kept.ok() || !kept.value().empty()) {
    error.hint += error.hint.empty() ? "" : "; ";
    error.hint += fmt::format(
        "the source is partly deleted: what was made of it lies in {}, and the same command goes on",
        work.path());
    return error;
  }
  const size_t done = may_go_on(error.kind) ? tasks_done(job, work) : 0;
  if (done == 0) {
    (void)work.clean();  // nobody is left to tell; the next run removes it
    if (error.text == "stopped by a signal") error.text += "; nothing was written";
    return error;
  }
  const std::string way = fmt::format(
      "{} of {} files of weights are done; the same command goes on from there", done, job.size());
  error.hint = error.hint.empty() ? way : error.hint + "; " + way;
  return error;
}

Result<ConvertReport> convert_into_nothing(const FileSystem& files, const Conversion& conversion,
                                           const ConversionPlan& plan, const OnProgress& progress) {
  Job job(files, conversion, plan, progress);
  std::vector<WrittenShard> written;
  for (size_t task = 0; task < job.size(); ++task) job.count(task);
  for (size_t task = 0; task < job.size(); ++task) {
    TANDEM_TRY(WrittenShard shard, job.make_nothing(task));
    written.push_back(std::move(shard));
  }
  ConvertReport report = conversion.report(written);
  TANDEM_CHECK(no_overflow(report.tensors));
  return report;
}

/// A plan from outside, made again: its conversion, and the same plan in our own words.
struct Opened {
  ConversionPlan plan;
  std::unique_ptr<Conversion> conversion;
};

Result<Opened> open_plan(const FileSystem& files, std::string_view text, unsigned threads) {
  TANDEM_TRY(ConversionPlan told, plan_from_text(text));
  told.options.threads = threads;
  TANDEM_CHECK(least_memory(told.options));
  if (told.options.delete_source)
    return usage("convert_c4",
                 "--delete-source-as-done is for tandem convert: processes do not know what others read");
  const std::string inputs[] = {told.source, told.options.like, told.options.map_file};
  TANDEM_CHECK(may_give_way(files, told.destination, inputs, told.options.force));
  Opened opened;
  TANDEM_TRY(opened.conversion, plan_conversion(files, told.source, told.options, false));
  opened.plan = plan_of(*opened.conversion, told.source, told.destination, told.options);
  TANDEM_CHECK(same_inputs(told.inputs, opened.plan.inputs));
  if (identity(opened.plan) != identity(told))
    return corrupt("plan_c2", "the plan is not what this program makes of {}", told.source)
        .because("was it edited, or made by another version? plan again");
  return opened;
}

/// A conversion that deleted its source and has left no work: there is nothing to plan with, and nothing to
/// do. Errors: exists.
Status not_done_before(const FileSystem& files, const std::string& destination) {
  TANDEM_TRY(const PathKind there, files.kind(destination));
  TANDEM_TRY(const std::vector<std::string> kept, WorkFolder::kept(files, destination));
  if (there == PathKind::absent || !kept.empty()) return {};
  return exists("", "the output exists already").at(destination).because("--force replaces it");
}

}  // namespace

Status least_memory(const ConvertOptions& options) {
  if (options.memory >= kLeastMemory) return {};
  return usage("convert_c4", "--memory: {} bytes, at least {} are needed", options.memory, kLeastMemory);
}

Result<ConvertReport> convert(const FileSystem& files, const std::string& source,
                              const std::string& destination, const ConvertOptions& options) {
  TANDEM_CHECK(least_memory(options));
  if (options.delete_source && options.write && !options.force)
    TANDEM_CHECK(not_done_before(files, destination));
  TANDEM_TRY(const WithRetired view,
             options.write ? with_retired(files, destination) : Result<WithRetired>(WithRetired(files, {})));
  TANDEM_TRY(const auto conversion, plan_conversion(view, source, options, !view.any()));
  const std::string inputs[] = {source, options.like, options.map_file};
  if (options.write) TANDEM_CHECK(may_give_way(files, destination, inputs, options.force));
  const ConversionPlan plan = plan_of(*conversion, source, destination, options);
  if (!options.write) return convert_into_nothing(files, *conversion, plan, options.progress);

  Job job(files, *conversion, plan, options.progress);
  TANDEM_TRY(WorkFolder work, WorkFolder::open_alone(files, destination, job.identity_text(), options.force));
  std::vector<std::string> remarks;
  if (work.replaced())
    remarks.push_back("what an earlier run left was of other files or options, and was removed");
  const size_t before = tasks_done(job, work);
  if (before > 0)
    remarks.push_back(
        fmt::format("went on from an earlier run: {} of {} files of weights were done", before, job.size()));
  if (work.finished() && options.delete_source) {  // its notes may be gone, and its source is
    TANDEM_CHECK(work.clean());
    ConvertReport report = conversion->report({});
    report.remarks.push_back("an earlier run had put the output in place");
    return report;
  }
  SourceRetirement retirement(view, files, *conversion, work);
  if (!work.finished()) conversion->begin_finish();
  auto written = make_all(job, work, *conversion, options.delete_source ? &retirement : nullptr);
  if (!written.ok()) return after_failure(std::move(written).error(), files, job, work);
  if (work.finished()) {
    TANDEM_CHECK(work.clean());
    ConvertReport report = conversion->report(written.value());
    report.remarks.insert(report.remarks.end(), remarks.begin(), remarks.end());
    return report;
  }
  TANDEM_TRY(const WithRetired left, with_retired(files, destination));  // files that this run deleted too
  auto report = complete(left, *conversion, plan, work, written.value());
  if (!report.ok()) return after_failure(std::move(report).error(), files, job, work);
  report.value().remarks.insert(report.value().remarks.end(), remarks.begin(), remarks.end());
  return report;
}

Json to_json(const TasksReport& report) {
  return Json{{"tasks", report.tasks},
              {"made", report.made},
              {"there", report.there},
              {"elsewhere", report.elsewhere},
              {"bytes", report.bytes}};
}

Result<ConversionPlan> plan_tasks(const FileSystem& files, const std::string& source,
                                  const std::string& destination, const ConvertOptions& options) {
  TANDEM_CHECK(least_memory(options));
  TANDEM_TRY(const auto conversion, plan_conversion(files, source, options, false));
  const std::string inputs[] = {source, options.like, options.map_file};
  TANDEM_CHECK(may_give_way(files, destination, inputs, options.force));
  return plan_of(*conversion, source, destination, options);
}

Result<TasksReport> run_tasks(const FileSystem& files, std::string_view plan, const TaskShare& share,
                              const OnProgress& progress) {
  if (share.count == 0 || share.index >= share.count)
    return usage("plan_c3", "share {} of {}: expected one of 0 to {}", share.index, share.count,
                 share.count == 0 ? 0 : share.count - 1);
  TANDEM_TRY(const Opened opened, open_plan(files, plan, share.threads));
  Job job(files, *opened.conversion, opened.plan, progress);
  TANDEM_TRY(const WorkFolder work, WorkFolder::open_shared(files, opened.plan.destination,
                                                            job.identity_text(), opened.plan.options.force));
  TasksReport report;
  report.tasks = job.size();
  std::vector<size_t> open;
  uint64_t bytes = 0;
  for (size_t task = share.index; task < job.size(); task += share.count) {
    TANDEM_TRY(const auto written, job.done(work, task));
    if (written) {
      report.there.push_back(task);
      continue;
    }
    open.push_back(task);
    bytes += job.disk(task);
    job.count(task);
  }
  TANDEM_CHECK(job.room_for(work, bytes));
  for (const size_t task : open) {
    auto lock = work.hold(task_name(task));
    if (!lock.ok() && lock.error().kind != ErrorKind::locked) return std::move(lock).error();
    if (!lock.ok()) {
      report.elsewhere.push_back(task);
      continue;
    }
    TANDEM_TRY(const auto written, job.done(work, task));  // by who held it before
    if (written) {
      report.there.push_back(task);
      continue;
    }
    TANDEM_TRY(const WrittenShard made, job.make(work, task));
    report.made.push_back(task);
    report.bytes += made.sums.bytes;
  }
  return report;
}

Result<ConvertReport> finalize_tasks(const FileSystem& files, std::string_view plan, bool check) {
  TANDEM_TRY(const Opened opened, open_plan(files, plan, default_threads()));
  Job job(files, *opened.conversion, opened.plan, {});
  TANDEM_TRY(WorkFolder work, WorkFolder::open_begun(files, opened.plan.destination, job.identity_text(),
                                                     opened.plan.options.force));
  std::vector<WrittenShard> written;
  std::vector<std::string> open;
  for (size_t task = 0; task < job.size(); ++task) {
    TANDEM_TRY(auto shard, job.done(work, task));
    if (!shard)
      open.push_back(std::to_string(task));
    else
      written.push_back(std::move(*shard));
  }
  if (!open.empty() && !work.finished())
    return missing("plan_c4", "{} of {} tasks are not done: {}", open.size(), job.size(),
                   fmt::join(open, ", "))
        .at(opened.plan.destination)
        .because("tandem run-task does them");
  if (check)
    for (size_t task = 0; task < written.size(); ++task)
      TANDEM_CHECK(
          is_as_written(files, join(work.out(), opened.conversion->shards()[task].file), written[task].sums));
  if (!work.finished()) return complete(files, *opened.conversion, opened.plan, work, written);
  TANDEM_CHECK(work.clean());
  return opened.conversion->report(written);
}

}  // namespace tandem
