#pragma once
// A conversion as a list of tasks, one a data shard: what `tandem plan` prints and run-task carries out.
// As JSON: docs/schemas/plan.schema.json. A plan is never believed: who carries it out plans the same
// conversion again, from its source and options, and refuses a plan that says anything else.

#include <algorithm>

#include "convert/conversion.h"

namespace tandem {

struct PlannedTask {
  std::string file;  ///< inside the output
  uint64_t tensors = 0;
  uint64_t bytes = 0;  ///< of the file
  bool operator==(const PlannedTask&) const = default;
};

/// How fast a machine is, in bytes a second. 0: not known, and not counted.
struct MachineSpeed {
  double disk_read = 0, disk_write = 0;
  double sha256 = 0;  ///< of one thread
};

/// Of one process, in seconds. Reading and writing share the disk; hashing the files of the output runs
/// beside them.
struct TimeEstimate {
  double read = 0, write = 0, hash = 0;
  double all() const { return std::max(read + write, hash); }
};

struct ConversionPlan {
  std::string source, destination;  ///< absolute
  ConvertOptions options;           ///< progress is not part of a plan
  std::vector<InputFile> inputs;
  std::vector<PlannedTask> tasks;
  uint64_t rest_bytes = 0;           ///< of index, graph and side files, about
  uint64_t beside_source = 0;        ///< with options.delete_source: the most that is taken beyond the source
  std::optional<TimeEstimate> time;  ///< of one process, where the machine's speed was given
  uint64_t total_bytes() const;      ///< of all tasks
  uint64_t peak_memory() const;      ///< of one process: options.memory and three times the headers
  /// That the output takes, about: linked and cloned files take none. With options.delete_source: that is
  /// taken at most beyond what the source had.
  uint64_t disk() const;
};

ConversionPlan plan_of(const Conversion& conversion, const std::string& source,
                       const std::string& destination, const ConvertOptions& options);
/// What reading all inputs and writing the output takes; linked files are read for their sums. Hashing is
/// nothing where no SHA-256 is taken: without options.sha256, and of files of the source.
TimeEstimate estimated_time(const ConversionPlan& plan, const MachineSpeed& speed);
Json to_json(const ConversionPlan& plan);
/// Errors: plan_c1 (corrupt) text that is no plan, with the place; json_c1..5.
Result<ConversionPlan> plan_from_text(std::string_view text);

/// The plan less what does not change the bytes (force, memory), as text: two conversions with the same
/// identity make the same files.
std::string identity(const ConversionPlan& plan);

}  // namespace tandem
