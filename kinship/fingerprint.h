#pragma once
// Fingerprints of tensors that do not change under layout: sums of a hash of each element's bits. A sum does
// not depend on the order of its terms, so a transposed or reshaped tensor has the same one; and the sum of a
// stack or a concatenation is that of its parts, so parts are found by sums of slots and ranges.
//
// Equal fingerprints are a reason to compare, never a proof: confirm.h compares every element.

#include "kinship/checkpoint.h"

namespace tandem::kinship {

/// Told the bytes that were read since it was last called; its error ends the work.
using Progress = std::function<Status(uint64_t bytes)>;

/// Sums modulo 2^64 over a tensor in one dtype.
struct Fingerprint {
  uint64_t whole = 0;
  std::vector<uint64_t> slots;  ///< of each place along the first axis; only for tensors of rank 3 and more
  bool constant = false;        ///< every element is the same
};

/// The fingerprints of a weight in each of several dtypes, in one pass and bounded memory.
/// Errors: io, corrupt, scale_c1.
Result<std::map<DType, Fingerprint>> fingerprints(const Checkpoint& checkpoint, const Weight& weight,
                                                  const std::set<DType>& dtypes, const Progress& progress);

/// For a block of elements that lie side by side in a weight, from element `first` on, seen with a shape: the
/// sum over everything at each place of each axis.
Result<std::vector<std::vector<uint64_t>>> axis_sums(const Checkpoint& checkpoint, const Weight& weight,
                                                     DType as, uint64_t first, const Shape& shape,
                                                     const Progress& progress);

/// Plain figures of a tensor, for words about tensors that are near to each other but not equal. In float64,
/// over the values in storage order; NaN is left out.
struct Moments {
  double mean = 0, mean_square = 0, smallest = 0, largest = 0;
  uint64_t zeros = 0;
};
Result<Moments> moments(const Checkpoint& checkpoint, const Weight& weight);
/// True if each figure is within a hundredth of the root mean square.
bool near(const Moments& a, const Moments& b);

}  // namespace tandem::kinship
