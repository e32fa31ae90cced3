#pragma once

#include "contract/ops/registry.h"

namespace tandem {

/// One slice of an axis, without that axis:  y = x[:, ..., index, ...]
///
/// Shapes  x: rank of at least 2    y: x without `axis`
/// Types   any
/// Errors  select_c1  x has fewer than two axes
///         select_c2  axis is not one of x's axes, or is the first (batch)
///         select_c3  axis has no fixed size, or index is not in it
/// Source  Tensor.select; the experts forced for one layer out of those for all
extern const OpRow kSelect;

}  // namespace tandem
