#pragma once
// Names beside an output, and what both ways of staging do with them. For this folder.

#include "base/file.h"

namespace tandem {

/// The output as a path with a parent, without trailing slashes. Errors: invalid (staging_c1) for a path
/// without a name ("/", "a/..").
Result<std::string> output_path(const std::string& output);
/// ".OUT.tandem-SUFFIX", beside OUT.
std::string beside(const std::string& output, std::string_view suffix);
Error already_there(const std::string& output);
/// Syncs a folder and all folders in it.
Status sync_tree(const FileSystem& files, const std::string& root);
/// Removes what killed processes left beside the output (".OUT.tandem-PID"), or puts an old output back that
/// one of them had moved away. The caller holds the output's lock.
Status clean_up_after_the_dead(const FileSystem& files, const std::string& output);
/// Renames `staged` to `output`. With force an old output goes to `old` first, and comes back if anything
/// fails; it is not removed. Errors: exists, unless force; io.
Status put_in_place(const FileSystem& files, const std::string& staged, const std::string& output,
                    const std::string& old, bool force);

}  // namespace tandem
