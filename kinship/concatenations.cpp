// Tensors that are several tensors of the other side, one after the other along an axis: fused q, k and v, or
// gate and up; also at each place of a stack.

#include <algorithm>

#include "kinship/state.h"

namespace tandem::kinship {
namespace {

constexpr size_t kMostParts = 16;
constexpr uint64_t kMostSteps = 100'000;  // of a search along one axis

/// A tensor, or one place of its first axis, in which parts are looked for.
struct Region {
  Side side;
  size_t index;
  DType as;
  std::optional<uint64_t> slot;
  Shape shape;  ///< without the axis of slots
  uint64_t first() const { return slot ? *slot * element_count(whole(shape)) : 0; }
};

/// Parts in order along an axis.
struct Row {
  std::vector<size_t> parts;
  std::vector<uint64_t> begins;
};

/// Open tensors of the other side by what they cover along an axis, and their fingerprint.
using Lengths = std::map<uint64_t, std::map<uint64_t, std::vector<size_t>>, std::greater<>>;

Lengths lengths_of(const State& state, const Region& region, size_t axis) {
  Lengths lengths;
  const Side from = other(region.side);
  const uint64_t slice = element_count(whole(region.shape)) / region.shape[axis];
  const Kind kind = state.weight(region.side, region.index).kind();
  for (const auto& [count, weights] : state.by_count[from]) {
    if (count == 0 || count % slice != 0 || count / slice >= region.shape[axis]) continue;
    for (const size_t i : weights) {
      const auto print = state.prints[from][i].find(region.as);
      if (state.done[from][i] || print == state.prints[from][i].end()) continue;
      const auto common = common_dtypes(state.weight(from, i).kind(), kind);
      if (std::find(common.begin(), common.end(), region.as) != common.end())
        lengths[count / slice][print->second.whole].push_back(i);
    }
  }
  return lengths;
}

/// Fills the axis from `begin` on, long parts first; `sums` are those before each place. Ends without a
/// result after `steps` tries (tensors of zeros fit everywhere).
bool fill(const Lengths& lengths, const std::vector<uint64_t>& sums, uint64_t begin, Row& row,
          uint64_t& steps) {
  if (begin + 1 == sums.size()) return row.parts.size() > 1;
  if (row.parts.size() == kMostParts) return false;
  for (const auto& [length, by_sum] : lengths) {
    if (steps == 0) return false;
    --steps;
    if (length >= sums.size() - begin) continue;
    const auto at = by_sum.find(sums[begin + length] - sums[begin]);
    if (at == by_sum.end()) continue;
    // Of several that are equal the first that is free.
    const auto part = std::find_if(at->second.begin(), at->second.end(), [&](size_t i) {
      return std::find(row.parts.begin(), row.parts.end(), i) == row.parts.end();
    });
    if (part == at->second.end()) continue;
    row.parts.push_back(*part);
    row.begins.push_back(begin);
    if (fill(lengths, sums, begin + length, row, steps)) return true;
    row.parts.pop_back();
    row.begins.pop_back();
  }
  return false;
}

std::vector<uint64_t> running(const std::vector<uint64_t>& sums) {
  std::vector<uint64_t> before{0};
  for (const uint64_t sum : sums) before.push_back(before.back() + sum);
  return before;
}

/// The box of a part in the joined tensor.
Box box_of(const Region& region, size_t axis, uint64_t begin, uint64_t end) {
  Box box = whole(region.shape);
  box.begin[axis] = begin;
  box.size[axis] = end - begin;
  if (region.slot) {
    box.begin.insert(box.begin.begin(), *region.slot);
    box.size.insert(box.size.begin(), 1);
  }
  return box;
}

/// Compares the parts of a row, and adds them to the link. False if one differs.
Result<bool> add_row(const State& state, const Region& region, size_t axis, const Row& row, Link& link,
                     bool& only) {
  const Weight& joined = state.weight(region.side, region.index);
  for (size_t i = 0; i < row.parts.size(); ++i) {
    const Weight& part = state.weight(other(region.side), row.parts[i]);
    const uint64_t end = i + 1 < row.parts.size() ? row.begins[i + 1] : region.shape[axis];
    std::optional<Layout> hint;
    if (!link.layouts.empty()) hint = link.layouts.back();
    TANDEM_TRY(const auto confirmed,
               confirm({&state.sides[other(region.side)], &part},
                       {&state.sides[region.side], &joined, box_of(region, axis, row.begins[i], end)}, hint,
                       state.progress));
    if (!confirmed) return false;
    only &= confirmed->only;
    link.parts.push_back(part.info);
    link.layouts.push_back(confirmed->layout);
    link.as = confirmed->as;
    link.dequantized |= part.scales && confirmed->as != part.info->dtype;
  }
  return true;
}

/// The rows of all regions of one tensor along an axis; empty if one has none.
Result<std::vector<Row>> rows_along(const State& state, const std::vector<Region>& regions, size_t axis,
                                    const std::vector<std::vector<std::vector<uint64_t>>>& sums) {
  std::vector<Row> rows;
  Lengths lengths = lengths_of(state, regions[0], axis);
  for (size_t i = 0; i < regions.size(); ++i) {
    Row row;
    uint64_t steps = kMostSteps;
    if (lengths.empty() || !fill(lengths, running(sums[i][axis]), 0, row, steps)) return std::vector<Row>{};
    for (auto& [length, by_sum] : lengths)
      for (auto& [sum, parts] : by_sum)
        std::erase_if(parts, [&](size_t part) {
          return std::find(row.parts.begin(), row.parts.end(), part) != row.parts.end();
        });
    rows.push_back(std::move(row));
  }
  return rows;
}

/// True if another open tensor has the values of a part: which one is meant cannot be told.
bool has_equal(const State& state, Side from, DType as, const std::vector<Row>& rows) {
  for (const Row& row : rows)
    for (const size_t part : row.parts)
      if (state.open(from, as, state.weight(from, part).count, state.prints[from][part].at(as).whole).size() >
          1)
        return true;
  return false;
}

Status link_rows(State& state, const std::vector<Region>& regions, size_t axis,
                 const std::vector<Row>& rows) {
  const Side side = regions[0].side;
  const bool stacked = regions[0].slot.has_value();
  Link link{side,
            state.weight(side, regions[0].index).info,
            {},
            stacked ? Join::stacked_concat : Join::concat,
            axis + stacked,
            {},
            {}};
  bool only = true;
  for (size_t i = 0; i < rows.size(); ++i) {
    TANDEM_TRY(const bool equal, add_row(state, regions[i], axis, rows[i], link, only));
    if (!equal) return {};
  }
  const bool doubtful = has_equal(state, other(side), regions[0].as, rows);
  state.done[side][regions[0].index] = true;
  for (const Row& row : rows)
    for (const size_t part : row.parts) state.done[other(side)][part] = true;
  if (only && !doubtful) {
    state.found.links.push_back(std::move(link));
    return {};
  }
  Doubt doubt{doubtful ? "several parts of a concatenation are equal"
                       : "equal values in more than one layout: transposed or not cannot be told",
              side == hf ? std::vector{link.joined} : link.parts,
              side == hf ? link.parts : std::vector{link.joined},
              {}};
  doubt.guess.push_back(std::move(link));
  state.found.doubts.push_back(std::move(doubt));
  return {};
}

bool anything_open(const State& state, Side side) {
  return std::count(state.done[side].begin(), state.done[side].end(), false) > 1;
}

/// Looks for rows of parts in regions of one tensor that together are all of it.
Status concatenation_in(State& state, const std::vector<Region>& regions) {
  bool any_fits = false;
  for (size_t axis = 0; axis < regions[0].shape.size() && !any_fits; ++axis)
    any_fits = !lengths_of(state, regions[0], axis).empty();
  if (!any_fits) return {};
  std::vector<std::vector<std::vector<uint64_t>>> sums;
  for (const Region& region : regions) {
    TANDEM_TRY(auto of_region, axis_sums(state.sides[region.side], state.weight(region.side, region.index),
                                         region.as, region.first(), region.shape, state.progress));
    sums.push_back(std::move(of_region));
    if (&region != &regions[0]) continue;
    // The first place decides whether the others are worth reading.
    bool any = false;
    for (size_t axis = 0; axis < region.shape.size() && !any; ++axis) {
      TANDEM_TRY(const auto rows, rows_along(state, {region}, axis, sums));
      any = !rows.empty();
    }
    if (!any) return {};
  }
  for (size_t axis = 0; axis < regions[0].shape.size() && !state.done[regions[0].side][regions[0].index];
       ++axis) {
    TANDEM_TRY(const auto rows, rows_along(state, regions, axis, sums));
    if (!rows.empty()) {
      TANDEM_CHECK(link_rows(state, regions, axis, rows));
    }
  }
  return {};
}

Status concatenation_of(State& state, Side side, size_t index, DType as, bool stacked) {
  const Shape& shape = state.weight(side, index).shape();
  if (!stacked) return concatenation_in(state, {{side, index, as, {}, shape}});
  if (shape.size() < 3) return {};
  std::vector<Region> regions;
  for (uint64_t slot = 0; slot < shape[0]; ++slot)
    regions.push_back({side, index, as, slot, Shape(shape.begin() + 1, shape.end())});
  return concatenation_in(state, regions);
}

}  // namespace

Status pair_concatenations(State& state) {
  for (const bool stacked : {false, true})
    for (const Side side : {tf, hf})
      for (size_t i = 0; i < state.sides[side].weights.size(); ++i) {
        const Weight& weight = state.weight(side, i);
        if (weight.count == 0 || weight.scales) continue;
        for (const auto& [as, print] : state.prints[side][i]) {
          if (state.done[side][i] || !anything_open(state, other(side))) break;
          TANDEM_CHECK(concatenation_of(state, side, i, as, stacked));
        }
      }
  return {};
}

}  // namespace tandem::kinship
