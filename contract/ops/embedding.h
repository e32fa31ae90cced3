#pragma once

#include "contract/ops/registry.h"

namespace tandem {

/// One row of a table for every id:  y[..., i] = table[ids[...], i]
///
/// Shapes  ids: [...]    table: [vocab, hidden]    y: [..., hidden]
/// Types   ids i32, table and y one float type
/// Errors  embedding_c1  ids are not i32
///         embedding_c2  table is not a float matrix
///         embedding_c3  (when run) an id is not below vocab
/// Source  torch.nn.Embedding
extern const OpRow kEmbedding;

}  // namespace tandem
