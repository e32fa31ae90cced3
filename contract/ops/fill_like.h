#pragma once

#include "contract/ops/registry.h"

namespace tandem {

/// A constant that has the batch and token axes of another tensor.
///
/// Shapes  x: [batch, tokens, ...]    y: [batch, tokens, last...]
/// Types   x any, y i32
/// Errors  fill_like_c1  x has fewer than two axes
///         fill_like_c2  last holds a size below 1
///         fill_like_c3  value does not fit in i32
/// Source  torch.full: the all-ones mask of an ids-only call, and "no expert forced" (-1) for route
extern const OpRow kFillLike;

}  // namespace tandem
