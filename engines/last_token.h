#pragma once
// Of logits over whole rows, those that say what comes next.

#include "engines/engine.h"

namespace tandem {

/// Cuts the tensor "logits", [batch, tokens, vocab], to its last token, [batch, 1, vocab]; others stay.
/// Errors: engine_c11 there are no logits, or they have another rank, no token, or data of another size.
Status keep_last_logits(HostTensors& tensors);

}  // namespace tandem
