#pragma once
// A model as stages: consecutive layers that hand hidden states on, so that no machine has to hold the whole.
// Derived from `logits`, so that no architecture writes them. docs/scale.md has what they take and give.

#include "contract/graph.h"

namespace tandem {

/// Layers [begin, end) of a model, counted by the calls of `logits`.
struct LayerSpan {
  uint64_t begin = 0, end = 0;
  bool operator==(const LayerSpan&) const = default;
};

/// All layers in `stages` spans of about the same bytes of weights, as stored; the embedding counts to the
/// first, norm and head to the last. Errors: stages_c1 (usage) no stages, or more than layers.
Result<std::vector<LayerSpan>> stage_spans(const Contract& contract, uint64_t stages);

/// The value of `logits` that enters a layer: "x_10". Empty for layer 0, which takes ids.
std::string hidden_states_before(const Contract& contract, uint64_t layer);

/// The part of a checked contract that computes these layers; with the first come the embedding, with the
/// last norm and head. Every entry that calls all layers (logits, logits_forced, prefill, decode, step) stays
/// under its name, as far as the stage computes it: it takes `hidden_states` instead of input_ids where the
/// span does not begin at 0, and gives `hidden_states_out` instead of logits where others follow; caches are
/// those of its layers. Entries layer_N stay with their layer. Layers, weights and taps keep their numbers.
/// Weights and blocks that nothing uses are left out; a table that is tied is in the first and the last.
/// Errors: stages_c2 (unsupported) an entry that is not made of calls one after the other.
Result<Contract> stage_of(const Contract& contract, const LayerSpan& layers);

inline constexpr const char* kHiddenStates = "hidden_states";
inline constexpr const char* kHiddenStatesOut = "hidden_states_out";

}  // namespace tandem
