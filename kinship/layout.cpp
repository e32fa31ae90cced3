#include "kinship/layout.h"

#include <algorithm>
#include <numeric>

#include "rules/row.h"

namespace tandem::kinship {
namespace {

constexpr uint64_t kMostHeads = 4096;
constexpr size_t kMostAxes = 6;  // 720 permutations

std::vector<uint64_t> in_order(size_t rank) {
  std::vector<uint64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

bool is_in_order(const std::vector<uint64_t>& axes) { return std::is_sorted(axes.begin(), axes.end()); }

Shape without_ones(const Shape& shape) {
  Shape kept;
  for (const uint64_t size : shape)
    if (size != 1) kept.push_back(size);
  return kept;
}

std::vector<uint64_t> inverse(const std::vector<uint64_t>& axes) {
  std::vector<uint64_t> back(axes.size());
  for (size_t i = 0; i < axes.size(); ++i) back[axes[i]] = i;
  return back;
}

/// True if runs of `fine` have the products `coarse`, in order. Neither holds 0 or 1.
bool refines(const Shape& fine, const Shape& coarse) {
  size_t at = 0;
  for (const uint64_t size : coarse) {
    uint64_t product = 1;
    while (product < size && at < fine.size()) product *= fine[at++];
    if (product != size) return false;
  }
  return at == fine.size();
}

template <class Visit>
void for_each_permutation(size_t rank, const Visit& visit) {
  if (rank > kMostAxes) return visit(in_order(rank));
  std::vector<uint64_t> axes = in_order(rank);
  do visit(axes);
  while (std::next_permutation(axes.begin(), axes.end()));
}

}  // namespace

Layout shortest(Shape shape, std::vector<uint64_t> axes) {
  // Axes of size 1 go; then an axis that follows its left neighbour on both sides joins it.
  Layout kept;
  std::vector<uint64_t> new_place(shape.size());
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    new_place[axis] = kept.shape.size();
    if (shape[axis] != 1) kept.shape.push_back(shape[axis]);
  }
  for (const uint64_t axis : axes)
    if (shape[axis] != 1) kept.axes.push_back(new_place[axis]);
  for (size_t i = 0; i + 1 < kept.axes.size();) {
    const uint64_t axis = kept.axes[i];
    if (kept.axes[i + 1] != axis + 1) {
      ++i;
      continue;
    }
    kept.shape[axis] *= kept.shape[axis + 1];
    kept.shape.erase(kept.shape.begin() + static_cast<ptrdiff_t>(axis) + 1);
    kept.axes.erase(kept.axes.begin() + static_cast<ptrdiff_t>(i) + 1);
    for (uint64_t& other : kept.axes)
      if (other > axis) --other;
  }
  if (kept.shape.empty()) return {{1}, {0}};
  return kept;
}

std::vector<Layout> possible_layouts(const Shape& from, const Shape& to) {
  std::vector<Layout> layouts;
  const auto count = element_count(from), other = element_count(to);
  if (!count.ok() || !other.ok() || count.value() != other.value()) return layouts;
  const auto add = [&](Layout layout) {
    if (std::find(layouts.begin(), layouts.end(), layout) == layouts.end())
      layouts.push_back(std::move(layout));
  };
  if (count.value() == 0) return {{{0}, {0}}};
  const Shape source = without_ones(from), result = without_ones(to);
  for_each_permutation(source.size(), [&](const std::vector<uint64_t>& axes) {
    if (permuted(source, axes) == result) add(shortest(source, axes));
  });
  for_each_permutation(result.size(), [&](const std::vector<uint64_t>& axes) {
    if (refines(permuted(result, axes), source)) add(shortest(permuted(result, axes), inverse(axes)));
  });
  for_each_permutation(source.size(), [&](const std::vector<uint64_t>& axes) {
    if (refines(permuted(source, axes), result)) add(shortest(source, axes));
  });
  add({{count.value()}, {0}});
  return layouts;
}

namespace {

/// `axis` of a shape seen as three, the last two swapped; then `axes` of the original are permuted.
Layout with_swapped_pairs(const Shape& shape, size_t axis, const Shape& parts,
                          const std::vector<uint64_t>& axes) {
  Shape seen;
  std::vector<std::vector<uint64_t>> places;  // of each original axis, in the order of the result
  for (size_t i = 0; i < shape.size(); ++i) {
    const uint64_t at = seen.size();
    seen.insert(seen.end(), i == axis ? parts.begin() : shape.begin() + static_cast<ptrdiff_t>(i),
                i == axis ? parts.end() : shape.begin() + static_cast<ptrdiff_t>(i) + 1);
    places.push_back(i == axis ? std::vector<uint64_t>{at, at + 2, at + 1} : std::vector<uint64_t>{at});
  }
  std::vector<uint64_t> order;
  for (const uint64_t i : axes) order.insert(order.end(), places[i].begin(), places[i].end());
  return shortest(std::move(seen), std::move(order));
}

}  // namespace

std::vector<Layout> rotary_layouts(const Shape& from, const Shape& to) {
  std::vector<Layout> layouts;
  const Shape source = without_ones(from), result = without_ones(to);
  if (source.size() > 2 || std::count(source.begin(), source.end(), 0) > 0) return layouts;
  for_each_permutation(source.size(), [&](const std::vector<uint64_t>& axes) {
    if (permuted(source, axes) != result) return;
    for (size_t axis = 0; axis < source.size(); ++axis)
      for (uint64_t heads = 1; heads <= std::min(kMostHeads, source[axis] / 4); ++heads) {
        if (source[axis] % (2 * heads) != 0) continue;
        const uint64_t half = source[axis] / (2 * heads);
        layouts.push_back(with_swapped_pairs(source, axis, {heads, 2, half}, axes));
        if (half != 2) layouts.push_back(with_swapped_pairs(source, axis, {heads, half, 2}, axes));
      }
  });
  return layouts;
}

std::optional<std::vector<uint64_t>> as_transpose(const Layout& layout, const Shape& from, const Shape& to) {
  std::optional<std::vector<uint64_t>> found;
  if (from.size() != to.size()) return found;
  for_each_permutation(from.size(), [&](const std::vector<uint64_t>& axes) {
    if (!found && permuted(from, axes) == to && shortest(from, axes) == layout) found = axes;
  });
  return found;
}

std::string in_words(const Layout& layout, const Shape& from, const Shape& to) {
  const auto transpose = [](const std::vector<uint64_t>& axes) {
    return fmt::format("transpose({})", fmt::join(axes, ","));
  };
  if (const auto axes = as_transpose(layout, from, to))
    return is_in_order(*axes) ? "as it is" : transpose(*axes);
  if (layout.shape.size() == 1) return fmt::format("reshape to {}", to_string(to));
  std::string text;
  if (layout.shape != from) text = fmt::format("reshape to {}, ", to_string(layout.shape));
  if (!is_in_order(layout.axes)) text += transpose(layout.axes) + ", ";
  if (permuted(layout.shape, layout.axes) != to) text += fmt::format("reshape to {}, ", to_string(to));
  return text.substr(0, text.size() - 2);
}

}  // namespace tandem::kinship
