#pragma once
// A checkpoint as pairing sees it: tensors, the scales that belong to fp8 weights, and the dtypes in which
// two tensors may be equal.

#include <map>
#include <set>

#include "rules/convert_run.h"
#include "rules/rules.h"

namespace tandem::kinship {

/// A dtype, and whether the values are codes times block scales.
struct Kind {
  DType dtype;
  bool scaled;
  auto operator<=>(const Kind&) const = default;
};

struct Weight {
  const TensorInfo* info = nullptr;
  const TensorInfo* scales = nullptr;  ///< of an fp8 weight, or null
  uint64_t count = 0;                  ///< elements
  Kind kind() const { return {info->dtype, scales != nullptr}; }
  const std::string& name() const { return info->name; }
  const Shape& shape() const { return info->shape; }
};

struct Checkpoint {
  const TensorSource* source = nullptr;
  std::vector<Weight> weights;            ///< every tensor, in the source's order
  std::optional<BlockDequantize> blocks;  ///< of the weights that have scales
};

/// Reads names, dtypes and shapes. Scales are found by a suffix that fp8 names share ("_scale_inv") and by
/// their shape; the block is the power of two (128 where that fits) that gives every scale tensor its shape.
/// Errors: shape_c1. `source` must outlive the result.
Result<Checkpoint> read_checkpoint(const TensorSource& source);

/// The dtypes in which two tensors of these kinds are to be compared: the narrower one, to which the other is
/// rounded. Two for bf16 and f16 (either may be made from the other), none where no cast is known.
std::vector<DType> common_dtypes(Kind a, Kind b);

/// What makes a weight's elements those of `as`: nothing, a cast, or dequantizing. Errors: those of
/// read_scales.
Result<ConvertRun> converter(const Checkpoint& checkpoint, const Weight& weight, DType as);

}  // namespace tandem::kinship
