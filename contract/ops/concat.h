#pragma once

#include "contract/ops/registry.h"

namespace tandem {

/// Two tensors one behind the other along the last axis:  z = [x, y]
///
/// Shapes  x: [..., a]    y: [..., b]    z: [..., a + b]
/// Types   one type for all three
/// Errors  concat_c1  x or y has no last axis of a fixed size
///         concat_c2  the types, or the axes before the last, differ
/// Source  torch.cat(dim=-1), as in DeepseekV3Attention (query and key of the parts without and with
/// rotation)
extern const OpRow kConcat;

}  // namespace tandem
