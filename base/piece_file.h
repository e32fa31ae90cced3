#pragma once
// A file put together piece by piece, with its checksums, by a few threads.

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/file.h"
#include "base/sha256_tree.h"

namespace tandem {

/// Of all bytes of a file.
struct FileSums {
  uint64_t bytes = 0;
  uint32_t crc32c = 0;
  std::optional<Sha256Tree> sha256;  ///< if it was asked for
  std::vector<uint32_t> blocks;      ///< CRC-32C of each kSumBlock bytes, the last of the rest
  bool operator==(const FileSums&) const = default;
};

struct PieceOptions {
  bool sha256 = false;
  /// That make bytes, write and hash, the caller among them; kPieces at most are of use.
  unsigned threads = 1;
  bool sums = true;  ///< false: no CRC-32C either, for a plain copy; of the sums only `bytes` is right
};

/// Takes bytes front to back. Calls come from one thread. Holds kPieces pieces of kPieceBytes at most. An
/// error, wherever it comes up, is returned by that call of append or the next, and by every later one.
class PieceFile {
 public:
  static constexpr uint64_t kPieceBytes = 2 << 20;
  static constexpr size_t kPieces = 8;
  /// Rows are columns of a source that is transposed: so many elements of 2 bytes are a whole line of it in
  /// the cache.
  static constexpr uint64_t kLineRows = 32;
  /// So many are turned at once (rules/transpose.h).
  static constexpr uint64_t kSquareRows = 8;
  /// Makes the bytes from `offset` on of what is being appended. With several threads it is called by all of
  /// them at once, for different bytes, in no order.
  using Fill = std::function<Status(uint64_t offset, std::span<std::byte> out)>;

  explicit PieceFile(std::unique_ptr<WritableFile> file, PieceOptions options = {});
  ~PieceFile();

  /// Appends `size` bytes, which `fill` makes, in pieces of whole rows of `row` bytes: of a multiple of
  /// kLineRows rows if so many fit into a piece, or else of kSquareRows, or of as many as fit; if none does,
  /// of kPieceBytes. Errors: of fill, io.
  Status append(uint64_t size, const Fill& fill, uint64_t row = 1);
  Status append(std::span<const std::byte> bytes);
  uint64_t bytes() const;
  /// Waits for all pieces, then syncs and closes the file.
  Result<FileSums> close();
  /// The CRC-32C of what each call of append added, once the file is closed.
  const std::vector<uint32_t>& crcs() const;

 private:
  class Work;
  std::unique_ptr<Work> work_;
};

/// A file that nothing is kept of.
class NullFile : public WritableFile {
 public:
  Status append(std::span<const std::byte>) override { return {}; }
  Status close() override { return {}; }
};

/// The CRC-32C of each stretch of a file: from the end of the one before (or 0) to its own end. `ends` rise
/// and lie in the file. Stretches are read by `threads` threads, which call `on_bytes` one at a time. Errors:
/// io, of on_bytes.
Result<std::vector<uint32_t>> crcs_of(const ReadableFile& file, std::span<const uint64_t> ends,
                                      unsigned threads,
                                      const std::function<Status(uint64_t bytes)>& on_bytes = {});

/// The sums of a file that is there, of all it holds. `on_bytes` is called after each piece; its error stops.
/// Errors: io.
Result<FileSums> sums_of(const ReadableFile& file, const PieceOptions& options,
                         const std::function<Status(uint64_t bytes)>& on_bytes = {});

}  // namespace tandem
