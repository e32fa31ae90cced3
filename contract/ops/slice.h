#pragma once

#include "contract/ops/registry.h"

namespace tandem {

/// A part of the last axis:  y[..., i] = x[..., begin + i]
///
/// Shapes  x: [..., n]    y: [..., size]
/// Types   any
/// Errors  slice_c1  x has no last axis of a fixed size
///         slice_c2  begin is negative, size is below 1, or begin + size is beyond n
/// Source  torch.split(dim=-1), as in DeepseekV3Attention (parts without and with rotation)
extern const OpRow kSlice;

}  // namespace tandem
