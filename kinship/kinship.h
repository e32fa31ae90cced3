#pragma once
// Two checkpoints of unknown kinship: which tensors of one are made of which of the other, and how. Nothing
// but names, dtypes, shapes and values is used; names never decide (only where values cannot, and then as a
// guess that is called one).
//
// Fingerprints (fingerprint.h) propose, a comparison of every element (confirm.h) decides.

#include "kinship/confirm.h"

namespace tandem::kinship {

/// The sides as rule tables name them. Which checkpoint is which is the caller's choice.
enum Side : size_t { hf = 0, tf = 1 };
constexpr Side other(Side side) { return side == hf ? tf : hf; }

/// How the parts make the joined tensor.
enum class Join {
  one,             ///< one part, all of it
  stack,           ///< parts side by side along a new first axis
  concat,          ///< along `axis`
  stacked_concat,  ///< each place of the first axis is a concatenation along `axis`
};

/// One tensor, and the whole tensors of the other side that make it. Every element was compared.
struct Link {
  Side side;  ///< where the joined tensor lies
  const TensorInfo* joined;
  std::vector<const TensorInfo*> parts;  ///< in order; of a stacked_concat slot after slot
  Join join = Join::one;
  uint64_t axis = 0;            ///< of a concatenation, in the joined tensor
  std::vector<Layout> layouts;  ///< of each part
  DType as;                     ///< the dtype in which they are equal
  bool dequantized = false;     ///< parts are fp8 codes times scales
};

/// The shape of the place that a part takes in the joined tensor.
Shape place_of_part(const Link& link, size_t part);

/// A tensor that is equal to another of its own side, which is linked.
struct Tie {
  Side side;
  const TensorInfo* copy;
  const TensorInfo* of;
};

/// What values alone cannot decide.
struct Doubt {
  std::string why;  ///< "equal values", "symmetric: ..."
  std::vector<const TensorInfo*> hf, tf;
  std::vector<Link>
      guess;  ///< a choice by likeness of names, then by order; proven equal, but not the only one
};

struct Unpaired {
  Side side;
  const TensorInfo* tensor;
  std::string hint;  ///< may be empty
};

struct Kinship {
  std::vector<Link> links;
  std::vector<Tie> ties;
  std::vector<Doubt> doubts;
  std::vector<Unpaired> unpaired;
  std::optional<BlockDequantize> blocks;  ///< of the hf side's fp8 weights
  bool certain() const { return !links.empty() && doubts.empty() && unpaired.empty(); }
};

/// Errors: those of both sources. The sources must outlive the result. Memory: a hash for each place along
/// the first axis of tensors of rank 3 and more, and some 80 MB.
Result<Kinship> find_kinship(const TensorSource& hf, const TensorSource& tf, const Progress& progress);

}  // namespace tandem::kinship
