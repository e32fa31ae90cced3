// Tensors that hold one tensor of the other side at each place of their first axis.

#include <algorithm>

#include "kinship/likeness.h"
#include "kinship/state.h"

namespace tandem::kinship {
namespace {

/// The open tensors of the other side that each slot may be.
using Candidates = std::vector<std::vector<size_t>>;

/// Sums of the slots; computed here for matrices, which have none yet.
Result<std::vector<uint64_t>> slot_sums(const State& state, Side side, size_t index, DType as) {
  const auto& print = state.prints[side][index].at(as);
  if (!print.slots.empty()) return print.slots;
  const Weight& weight = state.weight(side, index);
  TANDEM_TRY(auto sums, axis_sums(state.sides[side], weight, as, 0, weight.shape(), state.progress));
  return std::move(sums[0]);
}

Candidates candidates_of(const State& state, Side side, const Weight& weight, DType as,
                         const std::vector<uint64_t>& slots) {
  const Side from = other(side);
  Candidates candidates;
  for (const uint64_t sum : slots) {
    candidates.emplace_back();
    for (const size_t i : state.open(from, as, weight.count / slots.size(), sum)) {
      const auto common = common_dtypes(state.weight(from, i).kind(), weight.kind());
      if (std::find(common.begin(), common.end(), as) != common.end()) candidates.back().push_back(i);
    }
  }
  return candidates;
}

/// One tensor for each slot, each used once; of several that are equal the next in order. Empty if there are
/// not enough.
std::vector<size_t> chosen(const Candidates& candidates, bool& doubtful) {
  std::vector<size_t> parts;
  std::set<size_t> used;
  for (const auto& slot : candidates) {
    doubtful |= slot.size() > 1;
    const auto free = std::find_if(slot.begin(), slot.end(), [&](size_t i) { return !used.contains(i); });
    if (free == slot.end()) return {};
    used.insert(*free);
    parts.push_back(*free);
  }
  return parts;
}

Box slot_of(const Shape& shape, uint64_t slot) {
  Box box = whole(shape);
  box.begin[0] = slot;
  box.size[0] = 1;
  return box;
}

/// Compares every slot with its part; all must lie in it in the same way. `first_try` is the layout that the
/// first slot is compared in before others.
Result<std::optional<Link>> prove(const State& state, Side side, const Weight& weight,
                                  const std::vector<size_t>& parts, bool& only,
                                  const std::optional<Layout>& first_try = {}) {
  Link link{side, weight.info, {}, Join::stack, 0, {}, {}};
  std::optional<Layout> layout = first_try;
  bool settled = false;  // some slot fits in one layout alone
  for (size_t slot = 0; slot < parts.size(); ++slot) {
    const Weight& part = state.weight(other(side), parts[slot]);
    TANDEM_TRY(const auto confirmed,
               confirm({&state.sides[other(side)], &part},
                       {&state.sides[side], &weight, slot_of(weight.shape(), slot)}, layout, state.progress));
    if (!confirmed || (slot > 0 && part.shape() != link.parts[0]->shape)) return std::optional<Link>{};
    if (slot > 0 && *layout != confirmed->layout) {
      // Slots before this one that fit in several layouts may have been taken in another.
      if (settled || first_try) return std::optional<Link>{};
      return prove(state, side, weight, parts, only, confirmed->layout);
    }
    settled |= confirmed->only;
    layout = confirmed->layout;
    link.parts.push_back(part.info);
    link.as = confirmed->as;
    link.dequantized |= part.scales && confirmed->as != part.info->dtype;
  }
  link.layouts.assign(parts.size(), *layout);
  only = settled;
  return std::optional<Link>(std::move(link));
}

/// True if an open tensor of a side has this many elements.
bool any_open(const State& state, Side side, uint64_t count) {
  const auto at = state.by_count[side].find(count);
  return at != state.by_count[side].end() &&
         std::any_of(at->second.begin(), at->second.end(), [&](size_t i) { return !state.done[side][i]; });
}

Status stack_of(State& state, Side side, size_t index, DType as) {
  const Weight& weight = state.weight(side, index);
  if (!any_open(state, other(side), weight.count / weight.shape()[0])) return {};
  TANDEM_TRY(const auto slots, slot_sums(state, side, index, as));
  const Candidates candidates = candidates_of(state, side, weight, as, slots);
  const size_t filled = static_cast<size_t>(
      std::count_if(candidates.begin(), candidates.end(), [](const auto& slot) { return !slot.empty(); }));
  if (filled == 0) return {};
  bool doubtful = false, only = true;
  const std::vector<size_t> parts = chosen(candidates, doubtful);
  if (parts.empty()) {
    state.hints[side][index] = fmt::format(
        "{} of its {} places along the first axis are tensors of the other side", filled, slots.size());
    return {};
  }
  TANDEM_TRY(auto link, prove(state, side, weight, parts, only));
  if (!link) return {};
  state.done[side][index] = true;
  for (const size_t part : parts) state.done[other(side)][part] = true;
  if (!doubtful && only) {
    state.found.links.push_back(std::move(*link));
    return {};
  }
  Doubt doubt{doubtful ? "several parts of a stack are equal"
                       : "equal values in more than one layout: transposed or not cannot be told",
              side == hf ? std::vector{weight.info} : link->parts,
              side == hf ? link->parts : std::vector{weight.info},
              {}};
  doubt.guess.push_back(std::move(*link));
  state.found.doubts.push_back(std::move(doubt));
  return {};
}

}  // namespace

Status pair_stacks(State& state) {
  for (const Side side : {tf, hf})
    for (size_t i = 0; i < state.sides[side].weights.size(); ++i) {
      const Weight& weight = state.weight(side, i);
      if (weight.shape().size() < 2 || weight.count == 0 || weight.scales) continue;
      for (const auto& [as, print] : state.prints[side][i]) {
        if (state.done[side][i]) break;
        TANDEM_CHECK(stack_of(state, side, i, as));
      }
    }
  return {};
}

}  // namespace tandem::kinship
