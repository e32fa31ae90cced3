#pragma once
// A conversion as a list of tasks, one a data shard: what `tandem plan` prints and run-task carries out.
// As JSON: docs/schemas/plan.schema.json. A plan is never believed: who carries it out plans the same
// conversion again, from its source and options, and refuses a plan that says anything else.

#include "convert/conversion.h"

namespace tandem {

struct PlannedTask {
  std::string file;  ///< inside the output
  uint64_t tensors = 0;
  uint64_t bytes = 0;  ///< of the file
  bool operator==(const PlannedTask&) const = default;
};

struct ConversionPlan {
  std::string source, destination;  ///< absolute
  ConvertOptions options;           ///< progress is not part of a plan
  std::vector<InputFile> inputs;
  std::vector<PlannedTask> tasks;
  uint64_t rest_bytes = 0;       ///< of index, graph and side files, about
  uint64_t total_bytes() const;  ///< of all tasks
  uint64_t peak_memory() const;  ///< of one process: options.memory and three times the headers
  uint64_t disk() const;         ///< that the output takes, about: linked and cloned files take none
};

ConversionPlan plan_of(const Conversion& conversion, const std::string& source,
                       const std::string& destination, const ConvertOptions& options);
Json to_json(const ConversionPlan& plan);
/// Errors: plan_c1 (corrupt) text that is no plan, with the place; json_c1..5.
Result<ConversionPlan> plan_from_text(std::string_view text);

/// The plan less what does not change the bytes (force, memory), as text: two conversions with the same
/// identity make the same files.
std::string identity(const ConversionPlan& plan);

}  // namespace tandem
