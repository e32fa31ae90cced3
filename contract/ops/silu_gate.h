#pragma once

#include "contract/ops/registry.h"

namespace tandem {

/// The gated activation of the MLP:  y = gate * sigmoid(gate) * up
///
/// Shapes  gate, up, y: any, all the same
/// Types   one float type for all three; gate * sigmoid(gate) is rounded to it before it meets up
/// Errors  silu_gate_c1  gate is not float
///         silu_gate_c2  up is not of gate's type
/// Source  LlamaMLP (transformers, modeling_llama.py), hidden_act "silu"
extern const OpRow kSiluGate;

}  // namespace tandem
