#pragma once
// What may be overwritten.

#include <span>

#include "base/file.h"

namespace tandem {

/// --force must cost neither what is being read nor things that are no model: an output that exists gives way
/// only if it is a model or an empty folder, and holds none of `inputs` (paths; empty ones are left out).
/// Without force an output stays, and StagedFolder says so. Errors: convert_c4 (usage), convert_c7 (exists).
Status may_give_way(const FileSystem& files, const std::string& destination,
                    std::span<const std::string> inputs, bool force);

}  // namespace tandem
