#pragma once
// The most likely tokens with drafts, up to 64 a call, by the loop in the graph.

#include "generate/generate.h"

namespace tandem {

/// What the model's own layer of multi-token prediction drafted, and how much of it the model chose.
struct Drafts {
  uint64_t drafted = 0;
  uint64_t accepted = 0;
};

/// The tokens of generate_greedy_speculative (docs/generation.md), of a SavedModel that was converted
/// --with-mtp. The first call makes all of `most`, as far as the graph's end tokens let it; the later ones
/// hand them out, and go on where more are wanted. `engine` and `drafts`, which counts, must outlive it.
/// Errors: the engine's; speculative_c1 (unavailable) odd outputs; speculative_c2 a token that is not
/// allowed: the graph knows no tokenizer.
NextToken speculative(Engine& engine, uint64_t most, std::vector<bool> allowed, Drafts& drafts);

}  // namespace tandem
