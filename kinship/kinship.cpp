#include "kinship/kinship.h"

#include <algorithm>

#include "kinship/state.h"

namespace tandem::kinship {
namespace {

/// The dtypes in which tensors of one kind may meet a tensor of the other side.
std::set<DType> meeting_dtypes(Kind kind, const std::set<Kind>& others) {
  std::set<DType> dtypes;
  for (const Kind other : others)
    for (const DType as : common_dtypes(kind, other)) dtypes.insert(as);
  return dtypes;
}

std::set<Kind> kinds_of(const Checkpoint& checkpoint) {
  std::set<Kind> kinds;
  for (const Weight& weight : checkpoint.weights) kinds.insert(weight.kind());
  return kinds;
}

Status take_fingerprints(State& state, Side side) {
  const std::set<Kind> others = kinds_of(state.sides[other(side)]);
  const Checkpoint& checkpoint = state.sides[side];
  for (size_t i = 0; i < checkpoint.weights.size(); ++i) {
    const Weight& weight = checkpoint.weights[i];
    TANDEM_TRY(auto prints,
               fingerprints(checkpoint, weight, meeting_dtypes(weight.kind(), others), state.progress));
    state.by_count[side][weight.count].push_back(i);
    for (const auto& [as, print] : prints) state.index[side][{as, weight.count, print.whole}].push_back(i);
    state.prints[side].push_back(std::move(prints));
  }
  state.done[side].assign(checkpoint.weights.size(), false);
  state.hints[side].resize(checkpoint.weights.size());
  return {};
}

/// Scales whose weights were dequantized have done their work; others are tensors like any other.
std::set<const TensorInfo*> spent_scales(const State& state) {
  std::map<const TensorInfo*, const TensorInfo*> scales;
  for (const Side side : {hf, tf})
    for (const Weight& weight : state.sides[side].weights)
      if (weight.scales) scales[weight.info] = weight.scales;
  std::set<const TensorInfo*> spent;
  const auto spend = [&](const Link& link) {
    if (!link.dequantized) return;
    for (const TensorInfo* part : link.parts)
      if (const auto at = scales.find(part); at != scales.end()) spent.insert(at->second);
  };
  for (const Link& link : state.found.links) spend(link);
  for (const Doubt& doubt : state.found.doubts)
    for (const Link& link : doubt.guess) spend(link);
  for (const Tie& tie : state.found.ties)
    if (const auto at = scales.find(tie.copy); at != scales.end()) spent.insert(at->second);
  return spent;
}

/// Puts the scales aside, or what is not spent of them back.
void set_scales_aside(State& state, bool aside) {
  const std::set<const TensorInfo*> spent = spent_scales(state);
  for (const Side side : {hf, tf}) {
    std::set<const TensorInfo*> scales;
    for (const Weight& weight : state.sides[side].weights)
      if (weight.scales) scales.insert(weight.scales);
    for (size_t i = 0; i < state.done[side].size(); ++i) {
      const TensorInfo* info = state.weight(side, i).info;
      if (scales.contains(info)) state.done[side][i] = aside || spent.contains(info);
    }
  }
}

/// Says of an open tensor which open one of the other side it is near to.
Status add_near_hint(State& state, Side side, size_t index, std::map<size_t, Profile>& known) {
  const Weight& weight = state.weight(side, index);
  const auto sizes = [](Shape shape) {
    std::sort(shape.begin(), shape.end());
    return shape;
  };
  std::optional<Profile> own;
  const auto partners = state.by_count[other(side)].find(weight.count);
  if (partners == state.by_count[other(side)].end()) return {};
  for (const size_t j : partners->second) {
    const Weight& partner = state.weight(other(side), j);
    if (state.done[other(side)][j]) continue;
    if (sizes(partner.shape()) != sizes(weight.shape())) continue;
    if (!own) {
      TANDEM_TRY(own, profile(state.sides[side], weight, state.progress));
    }
    if (!known.contains(j)) {
      TANDEM_TRY(known[j], profile(state.sides[other(side)], partner, state.progress));
    }
    if (!near(*own, known[j])) continue;
    state.hints[side][index] = fmt::format("near to {}, but not equal", partner.name());
    break;
  }
  return {};
}

Status list_unpaired(State& state) {
  for (const Side side : {hf, tf}) {
    std::map<size_t, Profile> known;
    for (size_t i = 0; i < state.done[side].size(); ++i) {
      if (state.done[side][i]) continue;
      const Weight& weight = state.weight(side, i);
      if (state.hints[side][i].empty()) {
        TANDEM_CHECK(add_near_hint(state, side, i, known));
      }
      if (state.hints[side][i].empty() && weight.info->dtype == DType::f8_e4m3 && !weight.scales)
        state.hints[side][i] = "fp8 codes, and no tensor whose name and shape fit its scales";
      state.found.unpaired.push_back({side, weight.info, state.hints[side][i]});
    }
  }
  return {};
}

}  // namespace

Shape place_of_part(const Link& link, size_t part) {
  Shape place = link.joined->shape;
  if (link.join == Join::one) return place;
  if (link.join == Join::concat) {
    const uint64_t slice = element_count(whole(place)) / place[link.axis];
    place[link.axis] = element_count(whole(link.parts[part]->shape)) / slice;
    return place;
  }
  const bool concatenated = link.join == Join::stacked_concat;
  place.erase(place.begin());
  if (concatenated) {
    const uint64_t slice = element_count(whole(place)) / place[link.axis - 1];
    place[link.axis - 1] = element_count(whole(link.parts[part]->shape)) / slice;
  }
  return place;
}

Result<Kinship> find_kinship(const TensorSource& hf_source, const TensorSource& tf_source,
                             const Progress& progress) {
  State state;
  state.progress = progress;
  TANDEM_TRY(state.sides[hf], read_checkpoint(hf_source));
  TANDEM_TRY(state.sides[tf], read_checkpoint(tf_source));
  for (const Side side : {hf, tf}) {
    TANDEM_CHECK(take_fingerprints(state, side));
  }
  set_scales_aside(state, true);
  TANDEM_CHECK(pair_whole_tensors(state));
  TANDEM_CHECK(pair_stacks(state));
  TANDEM_CHECK(pair_concatenations(state));
  set_scales_aside(state, false);
  TANDEM_CHECK(pair_whole_tensors(state));
  TANDEM_CHECK(list_unpaired(state));
  state.found.blocks = state.sides[hf].blocks;
  return std::move(state.found);
}

}  // namespace tandem::kinship
