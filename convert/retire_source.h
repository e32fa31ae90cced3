#pragma once
// --delete-source-as-done: each file of the source goes once all that is in it is written, synced and read
// back. For this folder.

#include "base/work_folder.h"
#include "convert/conversion.h"
#include "convert/retired_files.h"

namespace tandem {

/// The files with what an earlier run for this output kept of its source. Errors: retired_c1.
Result<WithRetired> with_retired(const FileSystem& files, const std::string& output);

/// The most bytes that `conversion` takes on the disk beyond its source while it deletes it, tasks being done
/// in their order; those of `done` are written.
uint64_t disk_beside_source(const Conversion& conversion, const std::vector<bool>& done);

class SourceRetirement {
 public:
  /// All arguments must outlive it. `source` is the FileSystem that the conversion was planned with.
  SourceRetirement(const FileSystem& source, const FileSystem& files, Conversion& conversion,
                   const WorkFolder& work)
      : source_(source), files_(files), conversion_(conversion), work_(work) {}

  /// A task is done, its manifest in place: deletes the files that no other task reads. Before that their
  /// headers are kept in the work folder, and every file made from them is read back. Errors: convert_c2;
  /// those of is_as_written; io. A file is deleted last, so an error or a kill leaves it or its output.
  Status done(size_t task, const WrittenShard& written);

 private:
  Status retire(const std::string& path, const std::vector<size_t>& tasks);

  const FileSystem& source_;
  const FileSystem& files_;
  Conversion& conversion_;
  const WorkFolder& work_;
  std::map<size_t, WrittenShard> written_;
  std::set<size_t> read_back_;
};

}  // namespace tandem
