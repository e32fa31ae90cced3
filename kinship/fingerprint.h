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

/// How large a tensor is at each place of each axis, for words about tensors that are near to each other but
/// not equal (trained further, or rounded twice). In float64; NaN counts as 0.
struct Profile {
  Shape shape;                                    ///< without axes of size 1
  std::vector<std::vector<double>> mean_squares;  ///< by axis and place
};
Result<Profile> profile(const Checkpoint& checkpoint, const Weight& weight, const Progress& progress);
/// True if every axis of one has an axis of the other along which the figures rise and fall together
/// (correlation above 0.9). Independent random tensors are not near.
bool near(const Profile& a, const Profile& b);

}  // namespace tandem::kinship
