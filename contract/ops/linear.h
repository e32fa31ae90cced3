#pragma once

#include "contract/ops/registry.h"

namespace tandem {

/// A matrix product with the last axis, and a bias:
///
///   y[..., o] = sum_i(x[..., i] * kernel[i, o]) + bias[o]      layout "in_out"
///   y[..., o] = sum_i(x[..., i] * kernel[o, i]) + bias[o]      layout "out_in"
///
/// Shapes  x: [..., in]    kernel: [in, out] or [out, in]    bias: [out], may be left out    y: [..., out]
/// Types   one float type for all
/// Errors  linear_c1  x is not float or has no axis
///         linear_c2  kernel is not a matrix of x's type with `in` where the layout has it
///         linear_c3  bias is not [out] of x's type
///         linear_c4  layout is neither "in_out" nor "out_in"
/// Source  torch.nn.Linear is "out_in"; a Keras Dense kernel is "in_out"
extern const OpRow kLinear;

}  // namespace tandem
