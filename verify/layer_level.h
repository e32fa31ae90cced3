#pragma once
// The layer level: each layer fed the reference's own input, every tap inside compared, so that errors do not
// add up. The routing of mixtures is compared first.

#include "contract/graph.h"
#include "verify/layer_stack.h"
#include "verify/model_level.h"
#include "verify/tap.h"
#include "verify/visibility.h"

namespace tandem {

/// The two sides and the contract between them. `exact` runs the contract in float64, or is null.
struct Sides {
  Engine* reference = nullptr;
  Engine* other = nullptr;
  Engine* exact = nullptr;
  bool reference_is_left = true;
  const Contract* contract = nullptr;
  const LayerStack* stack = nullptr;
  Tolerance tolerance = kTolerances[0];
  DType other_compute = DType::f32;  ///< what the other side's layers take their hidden states in
  Visibility reference_shows, other_shows;
  bool show(std::string_view tap) const {
    return shows_tap(reference_shows, tap) && shows_tap(other_shows, tap);
  }
  std::string_view name_of_reference() const { return reference_is_left ? "left" : "right"; }
  std::string_view name_of_other() const { return reference_is_left ? "right" : "left"; }
};

/// True if values inside the engine's entries can be had (Engine::values). Errors: those of the engine.
Result<bool> sees_inside(Engine& engine, const LayerStack& stack);

/// What one layer's router chose on both sides, over the real tokens of all probes.
struct RoutingResult {
  uint64_t tokens = 0;
  uint64_t same = 0;               ///< tokens with the same set of experts on both sides
  std::vector<NearTie> near_ties;  ///< another set, by a margin that rounding explains
  std::vector<NearTie> faults;     ///< another set than float64's, by more than that
  /// By expert: how often each side chose it, and how often both did for the same token.
  std::vector<uint64_t> reference, other, both;
};

struct LayerResult {
  std::string layer;  ///< "model.layers.3", or the tap of what is outside the layers
  std::vector<TapResult> taps;
  std::optional<RoutingResult> routing;
  bool equal() const;
  bool hidden() const;  ///< a side shows none of its taps
};

struct LayerLevel {
  std::vector<LayerResult> layers;  ///< rotary table, embedding, layers, last norm, head
  bool own_inputs = false;  ///< the other side cannot run single layers: each was measured on its own input
  std::vector<std::string> failures;  ///< beyond the taps'
  uint64_t values() const;
  bool passed() const;
};
Json to_json(const LayerLevel& level);

/// Compares every layer on every probe. Errors: those of the engines. A tap or layer that one side lacks is a
/// difference, not an error; one that it says it does not show is left out.
Result<LayerLevel> compare_layers(const Sides& sides, const std::vector<Probe>& probes);

}  // namespace tandem
