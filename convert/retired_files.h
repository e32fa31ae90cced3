#pragma once
// Files of a source that were deleted once all that was in them had been converted, and what planning needs
// of them: so that a conversion goes on from a source that is partly gone. For this folder.

#include <map>

#include "base/file.h"

namespace tandem {

struct RetiredFile {
  std::string path;  ///< absolute
  uint64_t bytes = 0;
  int64_t modified_ns = 0;
  std::string header;  ///< its first bytes: a safetensors header, with its length
  bool operator==(const RetiredFile&) const = default;
};

/// One line of JSON, then the header as it is.
std::string to_text(const RetiredFile& file);
/// Errors: retired_c1 (corrupt) text that to_text does not write.
Result<RetiredFile> retired_from_text(std::string_view text);

/// A FileSystem in which retired files that are not there any more still have their size, time and header.
/// Reading beyond the header is an error: retired_c2 (missing).
class WithRetired : public FileSystem {
 public:
  WithRetired(const FileSystem& inner, std::vector<RetiredFile> files);
  bool any() const { return !retired_.empty(); }

  Result<std::unique_ptr<ReadableFile>> open(const std::string& path,
                                             bool follow_links = true) const override;
  Result<std::unique_ptr<WritableFile>> create(const std::string& path) const override {
    return inner_.create(path);
  }
  Result<PathKind> kind(const std::string& path) const override;
  Result<std::string> resolve(const std::string& path) const override;
  Result<std::vector<std::string>> list(const std::string& path) const override;
  Status make_directories(const std::string& path) const override { return inner_.make_directories(path); }
  Status rename(const std::string& from, const std::string& to) const override {
    return inner_.rename(from, to);
  }
  Status remove_all(const std::string& path) const override { return inner_.remove_all(path); }
  Status sync_directory(const std::string& path) const override { return inner_.sync_directory(path); }
  Result<uint64_t> free_bytes(const std::string& path) const override { return inner_.free_bytes(path); }

 private:
  /// The retired file of a path, if nothing else lies there.
  Result<const RetiredFile*> gone(const std::string& path) const;

  const FileSystem& inner_;
  std::map<std::string, RetiredFile> retired_;  ///< by absolute path
};

}  // namespace tandem
