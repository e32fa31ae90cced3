#pragma once
// Part of a file as memory. What is read there is the system's own copy of the file, so that nothing is
// copied; why, and what makes it safe: docs/decisions/0004-windows.md.

#include <cstddef>
#include <memory>
#include <string>

#include "base/result.h"

namespace tandem {

/// A range of a file. Threads may share it.
class FileWindow {
 public:
  virtual ~FileWindow() = default;
  /// The first byte of the range.
  virtual const std::byte* bytes() const = 0;
  /// Brings `count` bytes from the range's byte `first` on into memory. Errors: io; corrupt (file_c1) when
  /// the file ends before them.
  virtual Status load(uint64_t first, uint64_t count) = 0;
  /// Whether all bytes so far were the file's. Those that it lost after they were loaded, because it was cut
  /// off or its disk failed, are zeros: nothing that was made of the bytes counts before this is ok. Errors:
  /// as load.
  virtual Status intact() const = 0;
};

/// A window on an open file, or nullptr where the system gives none: then the file is to be read. The
/// descriptor must outlive it; the path is for errors.
std::unique_ptr<FileWindow> map_window(int descriptor, const std::string& path, uint64_t offset,
                                       uint64_t size);

/// The error of a file that ends at byte `end`, where more was wanted from `offset` on.
Error cut_off(const std::string& path, uint64_t offset, uint64_t wanted, uint64_t end);

}  // namespace tandem
