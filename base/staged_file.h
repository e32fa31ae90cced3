#pragma once
// An output file that appears whole or not at all.
//
// While the work goes on, .OUT.tandem-PID lies beside OUT; commit() renames it. A killed process leaves it
// behind.

#include "base/file.h"

namespace tandem {

class StagedFile {
 public:
  /// Makes the empty file beside the output, so that a place that cannot be written is known at once. `files`
  /// must outlive it. Errors: invalid (staging_c1) for a path without a name; exists where the output is
  /// there and is no regular file, or its folder is not there; io.
  static Result<StagedFile> make(const FileSystem& files, const std::string& output);

  StagedFile(StagedFile&& other) noexcept;
  StagedFile& operator=(StagedFile&&) = delete;
  /// Removes what was staged, unless commit() succeeded.
  ~StagedFile();

  /// Writes the text, syncs, and renames into place; an old file gives way. Errors: io.
  Status commit(std::string_view text);

 private:
  StagedFile(const FileSystem& files, std::string output, std::string staged)
      : files_(&files), output_(std::move(output)), staged_(std::move(staged)) {}

  const FileSystem* files_;
  std::string output_;
  std::string staged_;  // empty: committed, or moved from
};

}  // namespace tandem
