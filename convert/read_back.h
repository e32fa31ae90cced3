#pragma once
// A task's file, read again after it was written. For this folder.

#include "convert/conversion.h"

namespace tandem {

/// Reads the file again and compares its checksums with the manifest's (F10). Errors: task_c2 (corrupt),
/// naming the first block that is not as it was; unavailable, stopped by a signal; io.
Status is_as_written(const FileSystem& files, const std::string& path, const FileSums& written);

}  // namespace tandem
