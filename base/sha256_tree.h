#pragma once
// SHA-256 of a file as a tree. One SHA-256 of all bytes is one long chain, at 2 GB/s on a processor that has
// instructions for it; those of many chunks are computed beside each other, and go nearly twice as fast.

#include <memory>
#include <span>
#include <vector>

#include "base/hash.h"

namespace tandem {

/// How finely the sums of a file name a damaged place: in blocks of so many bytes.
inline constexpr uint64_t kSumBlock = 4 << 20;

/// A file is cut into blocks of kSumBlock bytes and they into chunks of kChunk; the last has the rest. The
/// digest of a chunk is the SHA-256 of its bytes, of a block that of its chunks' digests in a row.
struct Sha256Tree {
  static constexpr size_t kChunk = 32 << 10;
  Sha256Digest root;  ///< SHA-256 of the digests of `blocks` in a row
  std::vector<Sha256Digest> blocks;
  bool operator==(const Sha256Tree&) const = default;
};

/// Takes the bytes in pieces of any size, from one thread at a time.
class Sha256TreeHash {
 public:
  Sha256TreeHash();
  ~Sha256TreeHash();
  void update(std::span<const std::byte> bytes);
  Sha256Tree finish();  ///< ends the computation

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace tandem
