#pragma once
// What a finished task leaves beside its file: a manifest, one JSON object. docs/schemas/task.schema.json.

#include "convert/conversion.h"

namespace tandem {

/// `plan` is the SHA-256 of the plan that the task belongs to.
std::string to_text(const WrittenShard& written, const DataShard& shard, size_t task, std::string_view plan);

/// The manifest of a task. Errors: task_c1 (corrupt) text that is not as to_text writes it, or is of another
/// plan, task or file.
Result<WrittenShard> written_from_text(std::string_view text, const DataShard& shard, size_t task,
                                       std::string_view plan);

}  // namespace tandem
