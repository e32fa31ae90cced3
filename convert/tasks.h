#pragma once
// A planned conversion carried out: by one process (convert), or by many (run_tasks, then finalize).

#include "convert/plan_file.h"

namespace tandem {

/// Plans from headers alone; nothing is written. Errors: as convert, less what only data can show.
Result<ConversionPlan> plan_tasks(const FileSystem& files, const std::string& source,
                                  const std::string& destination, const ConvertOptions& options);

/// The `index`-th of `count` shares: the tasks whose number is index modulo count.
struct TaskShare {
  size_t index = 0, count = 1;
  unsigned threads = default_threads();  ///< as in ConvertOptions
};

struct TasksReport {
  size_t tasks = 0;               ///< of the whole plan
  std::vector<size_t> made;       ///< by this call
  std::vector<size_t> there;      ///< made before
  std::vector<size_t> elsewhere;  ///< being made by another process just now
  uint64_t bytes = 0;             ///< of the files made by this call
};
Json to_json(const TasksReport& report);

using OnProgress = std::function<Status(uint64_t done, uint64_t total)>;

/// Does a share of a plan's tasks, those that are not done. Any number of processes may do so at once, on
/// machines that share the disk, and do the same share twice.
/// Errors: plan_c1; plan_c2 (corrupt) a plan that is not what this program makes of its source; convert_c8
/// the source changed since; plan_c3 (usage) a share that is not there; exists, unless the plan says force;
/// locked while a convert or finalize has the output; io, also where the disk has too little room.
Result<TasksReport> run_tasks(const FileSystem& files, std::string_view plan, const TaskShare& share,
                              const OnProgress& progress);

/// Writes what is left and puts the output in place. With `check` the files of all tasks are read again and
/// compared with their manifests. Errors: those above; plan_c4 (missing) tasks that are not done; task_c2
/// (corrupt) a file that is not as its manifest says; convert_c2.
Result<ConvertReport> finalize_tasks(const FileSystem& files, std::string_view plan, bool check);

}  // namespace tandem
