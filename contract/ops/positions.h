#pragma once

#include "contract/ops/registry.h"

namespace tandem {

/// The place of each token in its own sequence, padding not counted:
///
///   y[b, t] = max(sum_{s <= t}(attention_mask[b, s]) - 1, 0)
///
/// so a padded row counts as an unpadded one.
///
/// Shapes  attention_mask, y: [batch, tokens]
/// Types   i32; the mask holds 1 for tokens and 0 for padding
/// Errors  positions_c1  attention_mask is not i32[batch, tokens]
/// Source  `generate` of transformers (generation/utils.py), except that padding gets 0 there where it gets
/// 1: nobody
///         reads those positions
extern const OpRow kPositions;

}  // namespace tandem
