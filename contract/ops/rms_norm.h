#pragma once

#include "contract/ops/registry.h"

namespace tandem {

/// Root-mean-square normalisation of the last axis, then one gain a channel:
///
///   y[..., i] = gain[i] * round(x[..., i] / sqrt(mean_i(x[..., i]^2) + epsilon))
///
/// Shapes  x: [..., hidden]    gain: [hidden]    y: as x
/// Types   one float type for all three. Mean and quotient are taken in f32; round() goes back to that type,
/// so in bf16
///         it comes before the gain.
/// Units   epsilon is added to a mean square, so it has x's unit squared
/// Errors  rms_norm_c1  x is not float or has no axis
///         rms_norm_c2  gain is not [hidden] of x's type
///         rms_norm_c3  epsilon is not positive
/// Source  LlamaRMSNorm, DeepseekV3RMSNorm (transformers, modeling_llama.py, modeling_deepseek_v3.py)
extern const OpRow kRmsNorm;

}  // namespace tandem
