#pragma once

#include "contract/ops/registry.h"

namespace tandem {

/// The sum of two tensors of one type:  z = x + y
///
/// Shapes  x, y, z: any, all the same
/// Types   one float type for all three
/// Units   z's unit is that of both
/// Errors  add_c1  x is not float
///         add_c2  y is not of x's type
/// Source  the residual connections of LlamaDecoderLayer (transformers, modeling_llama.py)
extern const OpRow kAdd;

}  // namespace tandem
