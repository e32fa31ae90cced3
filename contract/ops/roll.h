#pragma once

#include "contract/ops/registry.h"

namespace tandem {

/// One axis turned round:  y[..., i, ...] = x[..., (i - shift) mod n, ...]
///
/// Shapes  x, y: any, both the same
/// Types   any
/// Errors  roll_c1  axis is not one of x's axes
///         roll_c2  shift is beyond +-2^20
/// Source  torch.roll, tf.roll; shifted windows (Liu et al., "Swin Transformer", 2021)
extern const OpRow kRoll;

}  // namespace tandem
