#pragma once
// The file layer. Everything that touches the disk goes through a FileSystem, so that tests can inject
// faults.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file_window.h"
#include "base/result.h"

namespace tandem {

/// An open regular file. Reads may come from several threads.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual const std::string& path() const = 0;
  virtual uint64_t size() const = 0;
  /// The file has other names too (hard links), under which it can be changed.
  virtual bool has_other_names() const { return false; }
  /// When it was last written to, as it was opened: nanoseconds since 1970, or 0 where that is not known.
  virtual int64_t modified_ns() const { return 0; }
  /// Fills out from offset on. Errors: io; corrupt when the file ends before out is full.
  virtual Status read(uint64_t offset, std::span<std::byte> out) const = 0;
  /// A part of it as memory, or nullptr where that is not to be had. This must outlive it.
  virtual std::unique_ptr<FileWindow> window(uint64_t /*offset*/, uint64_t /*size*/) const { return nullptr; }
};

/// A new file, written front to back.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual Status append(std::span<const std::byte> bytes) = 0;
  /// fsync and close. A file that was not closed is not promised to be on disk.
  virtual Status close() = 0;
};

/// What kind of thing a path is; links are followed, one that leads nowhere is `other`.
enum class PathKind { absent, file, directory, other };

class FileSystem {
 public:
  virtual ~FileSystem() = default;
  /// Opens a regular file for reading. The last component may be a symbolic link only if follow_links.
  /// Errors: missing; unsafe for a link, device, pipe, socket or directory (never blocks on one), and (X2)
  /// for a hard link to a file whose owner is not the folder's.
  virtual Result<std::unique_ptr<ReadableFile>> open(const std::string& path,
                                                     bool follow_links = true) const = 0;
  /// An existing regular file is emptied; anything else (a link, a pipe, a device) is unsafe.
  virtual Result<std::unique_ptr<WritableFile>> create(const std::string& path) const = 0;
  virtual Result<PathKind> kind(const std::string& path) const = 0;
  /// The absolute path with all symbolic links followed. Errors: missing.
  virtual Result<std::string> resolve(const std::string& path) const = 0;
  /// Names in a directory, sorted, without "." and "..".
  virtual Result<std::vector<std::string>> list(const std::string& path) const = 0;
  virtual Status make_directories(const std::string& path) const = 0;
  virtual Status rename(const std::string& from,
                        const std::string& to) const = 0;  ///< atomic; then fsyncs the parent
  virtual Status remove_all(const std::string& path) const = 0;
  virtual Status sync_directory(const std::string& path) const = 0;
  /// Bytes that may still be written to the disk of an existing path, as the system tells.
  virtual Result<uint64_t> free_bytes(const std::string& path) const = 0;
};

/// io_error, with a hint that names the disk where it is full.
Error file_error(std::string_view action, const std::string& path, int errno_value);

/// The operating system's files.
const FileSystem& real_files();

/// The whole of a small file as text. Errors: as open; corrupt (R3) if it is longer than max_bytes.
Result<std::string> read_text(const FileSystem& files, const std::string& path,
                              uint64_t max_bytes = 100'000'000);
/// The error of an output whose folder is not there: not a missing input (66), but an output that cannot be
/// created (73). Other errors stay what they are.
Error cannot_create(Error error);
/// Writes, syncs and closes a small file.
Status write_text(const FileSystem& files, const std::string& path, std::string_view text);
/// The same, but the path holds its old content or all of the new, whatever happens: a new file beside it,
/// renamed. A symbolic link stays one. Errors: those of write_text; exists for a folder.
Status replace_text(const FileSystem& files, const std::string& path, std::string_view text);

/// Refuses a name that could leave the folder it is meant for. Errors: unsafe (X1), as path_inside.
Status stays_inside(std::string_view name);
/// A name from a file (a shard in an index, an asset) as a path inside `folder`.
/// Errors: unsafe (X1) for an empty or over-long name, "..", ".", "a//b", an absolute path, a backslash, a
/// colon drive, NUL; or (R5) when a component is a symbolic link that leaves the folder. A hub cache's links
/// into `blobs/` of the same repository are allowed (R6).
Result<std::string> path_inside(const FileSystem& files, const std::string& folder, std::string_view name);

/// From the root on, whatever the process's folder; links and ".." are left as they are. Empty stays empty.
std::string absolute_path(const std::string& path);
std::string join(std::string_view folder, std::string_view name);

}  // namespace tandem
