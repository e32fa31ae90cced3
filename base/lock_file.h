#pragma once
// A lock between processes: a file that is held with flock, so that it ends with its holder.

#include <string>

#include "base/result.h"

namespace tandem {

class LockFile {
 public:
  enum class Use {
    alone,   ///< nobody else may hold it
    shared,  ///< others may, if they share it too
  };
  /// Makes the file, holds it and writes the process's pid into it. The file goes with its last holder.
  /// Errors: locked, naming the holder and `what` (an output), if another process has it; io.
  static Result<LockFile> take(const std::string& path, Use use, const std::string& what);

  LockFile(LockFile&& other) noexcept;
  LockFile& operator=(LockFile&&) = delete;
  ~LockFile();

 private:
  LockFile(std::string path, int descriptor, Use use)
      : path_(std::move(path)), descriptor_(descriptor), use_(use) {}

  std::string path_;
  int descriptor_;  // -1: moved from
  Use use_;
};

}  // namespace tandem
