#pragma once

#include "contract/ops/registry.h"

namespace tandem {

/// The gated activation of the MLP:  y = act(gate) * up,  act by the attribute hidden_act
/// (contract/ops/activation.h)
///
/// Shapes  gate, up, y: any, all the same
/// Types   one float type for all three; act(gate) is rounded to it before it meets up
/// Errors  activation_gate_c1  gate is not float
///         activation_gate_c2  up is not of gate's type
///         activation_gate_c3  hidden_act is no activation's name (unsupported)
/// Source  LlamaMLP (transformers, modeling_llama.py)
extern const OpRow kActivationGate;

}  // namespace tandem
