#pragma once
// The weights level: both sides taken through their rules to Hugging Face form, and compared bit for bit.
// It shows that the sides are consistent with the rules; that the rules are right, only logits show.

#include <functional>

#include "base/json.h"
#include "base/tensor_source.h"
#include "verify/odd_values.h"

namespace tandem {

struct WeightsLevel {
  uint64_t compared = 0;  ///< tensors on both sides
  uint64_t equal = 0;     ///< of them: same bits, or exactly the rounded values
  uint64_t rounded =
      0;                ///< of the equal ones: stored in another dtype, the narrower is the wider one rounded
  uint64_t values = 0;  ///< values compared
  std::optional<DType> narrowest;      ///< of the dtypes that values were rounded to on one side
  std::vector<std::string> different;  ///< a line each: the tensor, and what is different
  std::vector<std::string> missing;    ///< on one side only, a line each
  OddValues left_odd, right_odd;
  bool passed() const { return compared > 0 && equal == compared && missing.empty(); }
};
Json to_json(const WeightsLevel& level);

/// Compares all tensors of two sources by name; both are read from two threads. `progress` is told the bytes
/// compared so far; its error ends it.
Result<WeightsLevel> compare_weights(const TensorSource& left, const TensorSource& right,
                                     const std::function<Status(uint64_t)>& progress = {});

}  // namespace tandem
