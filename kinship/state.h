#pragma once
// What the passes of pairing share: both checkpoints, their fingerprints, and what is still without a
// partner. For this folder.

#include "kinship/kinship.h"

namespace tandem::kinship {

struct State {
  Checkpoint sides[2];
  std::vector<std::map<DType, Fingerprint>> prints[2];  ///< of each weight
  std::vector<bool> done[2];                            ///< linked, tied, or in a doubt
  /// Open weights by dtype, number of elements and fingerprint.
  std::map<std::tuple<DType, uint64_t, uint64_t>, std::vector<size_t>> index[2];
  std::map<uint64_t, std::vector<size_t>> by_count[2];  ///< all weights by their number of elements
  std::vector<std::string> hints[2];  ///< of each weight, for those that end without a partner
  Progress progress;
  Kinship found;

  const Weight& weight(Side side, size_t i) const { return sides[side].weights[i]; }
  /// Open weights of a side with this fingerprint.
  std::vector<size_t> open(Side side, DType as, uint64_t count, uint64_t hash) const {
    std::vector<size_t> left;
    const auto at = index[side].find({as, count, hash});
    if (at == index[side].end()) return left;
    for (const size_t i : at->second)
      if (!done[side][i]) left.push_back(i);
    return left;
  }
};

// The passes, in this order. Each links what it can and leaves the rest open.
Status pair_whole_tensors(State& state);
Status pair_stacks(State& state);
Status pair_concatenations(State& state);

}  // namespace tandem::kinship
