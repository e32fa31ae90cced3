#pragma once
// Which pairs of tokens byte-pair encoding joins, and in what order.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tandem::text {

struct Merge {
  uint32_t rank = 0;  ///< the lower, the earlier
  uint32_t id = 0;    ///< of the joined token
};

/// A hash table with open addressing: pair of ids -> merge.
class MergeTable {
 public:
  /// For at most `count` pairs.
  explicit MergeTable(size_t count = 0);
  /// A pair that is there already takes the new merge.
  void put(uint32_t left, uint32_t right, Merge merge);
  /// The merge, or null.
  const Merge* find(uint32_t left, uint32_t right) const {
    const uint64_t pair = key(left, right);
    for (size_t at = place(pair);; at = (at + 1) & mask_) {
      if (entries_[at].pair == pair) return &entries_[at].merge;
      if (entries_[at].pair == kFree) return nullptr;
    }
  }

 private:
  struct Entry {
    uint64_t pair;
    Merge merge;
  };
  static constexpr uint64_t kFree = UINT64_MAX;
  static uint64_t key(uint32_t left, uint32_t right) { return uint64_t(left) << 32 | right; }
  size_t place(uint64_t pair) const { return (pair * 0x9e3779b97f4a7c15 >> 20) & mask_; }

  size_t mask_;
  std::vector<Entry> entries_;
};

/// A token while a word is being merged: where it begins in the word, in bytes.
struct Symbol {
  uint32_t id = 0;
  uint32_t begin = 0;
};
/// Merges the pair of the lowest rank, the leftmost of equals, until none is left.
/// Time: n^2 for the few symbols of a usual word; n log n above, and linear in memory.
void merge_all(const MergeTable& merges, std::vector<Symbol>& word);

}  // namespace tandem::text
