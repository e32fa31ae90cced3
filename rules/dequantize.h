#pragma once
// fp8 codes to bfloat16, as many at a time as the processor can. For the rest of this folder.

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace tandem {

/// to[i] = bfloat16(float32(code[i]) * scale): the product rounded to float32, then to nearest even. The same
/// bits and counts as decoding, multiplying and cast(); nothing else. `to` need not be aligned.
CastCounts dequantize_to_bf16(const std::byte* codes, size_t count, float scale, std::byte* to);

}  // namespace tandem
