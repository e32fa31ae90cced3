#pragma once
// What the forms of attention share.

#include "lower/tf/lower_ops.h"

namespace tandem {

/// The most negative finite value: what a blocked score becomes, so that a row with every key blocked is
/// uniform, not NaN.
double lowest(DType dtype);

}  // namespace tandem
