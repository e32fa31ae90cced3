#pragma once

#include "contract/ops/registry.h"

namespace tandem {

/// The same numbers in another type, rounded to nearest, ties to even.
///
/// Shapes  x, y: any, the same
/// Types   any to any float type; integers only from integers. In f64 evaluation nothing is rounded, unless
///         the attribute always is true: then rounding is what the model does, not how it is stored.
/// Errors  cast_op_c1  dtype is not the name of a type
///         cast_op_c2  from a float type to an integer
/// Source  Tensor.to(dtype) in PyTorch
extern const OpRow kCast;

}  // namespace tandem
