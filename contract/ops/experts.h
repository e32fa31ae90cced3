#pragma once

#include "contract/ops/registry.h"

namespace tandem {

/// The gated MLPs of the chosen experts, and of no others:
///
///   y[b, t] = sum over i of weights[b, t, i] * down_e(act(gate_e(x[b, t])) * up_e(x[b, t]))
///   where e = chosen[b, t, i], and act by the attribute hidden_act (contract/ops/activation.h)
///
/// Kernels come in `chunks` stacks, all gates first, then all ups, then all downs; expert numbers run through
/// the chunks in order.
///
/// Shapes  x, y: [batch, tokens, hidden]    chosen, weights: [batch, tokens, top_k]
///         gate, up: [experts_in_chunk, hidden, width] ("in_out") or [experts_in_chunk, width, hidden]
///         ("out_in") down: the same with hidden and width exchanged
/// Types   one float type for x, y and kernels; chosen i32; weights f32. Every product is rounded to x's
/// type, as is the
///         weighted sum
/// Errors  experts_c1  x is not float of rank 3
///         experts_c2  chosen is not i32[batch, tokens, top_k]
///         experts_c3  weights is not f32 of chosen's shape
///         experts_c4  chunks is below 1, or there are not 3 * chunks kernels
///         experts_c5  a gate or up kernel is not of x's type and the shape above (width the same in all; as
///         many
///                     experts as the gate of its chunk)
///         experts_c6  the same for a down kernel
///         experts_c7  layout is neither "in_out" nor "out_in"
///         experts_c8  (when run) a chosen expert does not exist
///         experts_c9  hidden_act is no activation's name (unsupported)
/// Source  DeepseekV3Experts (transformers, modeling_deepseek_v3.py)
extern const OpRow kExperts;

}  // namespace tandem
