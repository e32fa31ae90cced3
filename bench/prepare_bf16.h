#pragma once
// What the contender tf-xla-bf16 reads.

#include <string>

#include "base/result.h"

namespace tandem {

/// Makes the SavedModel `out` of a Hugging Face folder: --layout source --matmul-precision bfloat16, from the
/// folder itself if its kernels are bfloat16, and else from one that is made of it in bfloat16, by way of a
/// SavedModel. OUT.parts holds what is made on the way, and is gone afterwards. Errors: those of convert;
/// mixtures are convert_c10.
Status make_bf16_saved_model(const std::string& model, const std::string& out);

}  // namespace tandem
