#pragma once

#include "contract/ops/registry.h"

namespace tandem {

/// What was there and what is new, one after the other along an axis that is not fixed:
///
///   y = past, then new, along `axis`
///
/// Shapes  past, new: equal but for `axis`    y: the same, with `axis` called `length`
/// Types   any, both the same
/// Errors  append_c1  axis is not one of past's axes, or is the first (batch)
///         append_c2  past and new differ in type, or in another axis
///         append_c3  length is empty, or is the name of the axis in past or new
/// Source  DynamicLayer.update of transformers (cache_utils.py)
extern const OpRow kAppend;

}  // namespace tandem
