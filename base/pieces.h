#pragma once
// The pieces of a file on their way. For piece_file.cpp.

#include <array>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/big_buffer.h"
#include "base/piece_file.h"

namespace tandem {

/// A stretch of the file.
struct Piece {
  std::byte* room = nullptr;
  size_t size = 0;
  uint64_t at = 0;  ///< where it begins in the file
  size_t part = 0;  ///< the call of append that it belongs to
  /// Of its bytes up to the next end of a block of sums, and of those after it; a piece is not larger than a
  /// block.
  std::optional<std::array<uint32_t, 2>> crcs;
  bool made = false;  ///< its bytes are there

  std::span<std::byte> bytes() { return {room, size}; }
  std::array<std::span<const std::byte>, 2> stretches() const;
};

void sum(Piece& piece);
/// Adds a summed piece to sums that end where it begins; the CRC-32C of the piece alone.
uint32_t add_crc(FileSums& sums, const Piece& piece);

/// Pieces made and then handled by steps, each step in the order of the file, by a few threads that take
/// whatever is to be done next: no thread waits while there is work, and a piece mostly stays in the cache of
/// the processor that made it.
class Pipeline {
 public:
  using Step = std::function<Status(Piece&)>;
  /// The caller is one of the `threads` while it is in append or drain.
  Pipeline(std::vector<Step> steps, unsigned threads, bool sums);
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;
  ~Pipeline();

  /// Makes pieces of `most` bytes of the `size` that belong at `at` of the file; returns when all are made,
  /// not handled. Errors: the first that came up anywhere.
  Status append(uint64_t at, uint64_t size, uint64_t most, size_t part, const PieceFile::Fill& fill);
  /// Returns when all are handled. Errors: as append.
  Status drain();
  /// Errors: `status`, if there was none before.
  Status fail(Status status);

 private:
  /// A step and how far it is.
  struct Ordered {
    Step step;
    uint64_t next = 0;  // number of the piece whose turn it is
    bool busy = false;
  };
  /// A call of append.
  struct Job {
    uint64_t at, size, most;
    size_t part;
    const PieceFile::Fill& fill;
    uint64_t next = 0;  // offset of the bytes that nobody makes yet
    size_t making = 0;  // pieces in work
  };
  using Lock = std::unique_lock<std::mutex>;
  /// Does one thing, if there is one to do.
  bool act(Lock& lock);
  bool handle(Ordered& ordered, Lock& lock);
  bool make(Lock& lock);
  Status status() const { return error_ ? Status(*error_) : Status{}; }
  void help();

  const bool sums_;
  BigBuffer room_ = big_buffer(PieceFile::kPieces * PieceFile::kPieceBytes);
  std::array<Piece, PieceFile::kPieces> pieces_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Piece*> free_;   // the last used last: still in a cache
  std::deque<Piece*> window_;  // begun and not handled by every step
  uint64_t first_ = 0;         // number of the window's first piece
  std::vector<Ordered> steps_;
  Job* job_ = nullptr;
  std::optional<Error> error_;
  bool stop_ = false;
  std::vector<std::thread> helpers_;  // last: they use the others
};

}  // namespace tandem
