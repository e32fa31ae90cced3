#pragma once
// How one tensor may lie in another: its elements seen with a shape, and axes permuted.

#include <optional>

#include "base/shape.h"

namespace tandem::kinship {

/// A tensor is seen with `shape` (of as many elements, row-major), axis i of the result is axis axes[i] of
/// that. In its shortest form: no axis of size 1, and no two axes that could be one. So two layouts are the
/// same exactly where they are equal, and identity is {[count], [0]}.
struct Layout {
  Shape shape;
  std::vector<uint64_t> axes;
  bool operator==(const Layout&) const = default;
};
/// The shortest form.
Layout shortest(Shape shape, std::vector<uint64_t> axes);

/// Every layout in which a tensor of shape `from` could make one of shape `to`: permutations of axes, then
/// axes split or merged and permuted, then the same order under another shape. Likely ones first.
/// Empty if the numbers of elements differ; axes beyond 6 are only taken in order.
std::vector<Layout> possible_layouts(const Shape& from, const Shape& to);

/// Layouts that two conventions of rotary embedding differ by: one axis is seen as [heads, 2, half] and
/// becomes [heads, half, 2], or back, and axes are permuted besides. For vectors and matrices, every number
/// of heads up to 4096 that divides the axis.
std::vector<Layout> rotary_layouts(const Shape& from, const Shape& to);

/// The permutation of the axes of `from` that gives `to` in this layout (identity where that does), or
/// nothing where a reshape is needed.
std::optional<std::vector<uint64_t>> as_transpose(const Layout& layout, const Shape& from, const Shape& to);

/// "as it is", "transpose(1,0)", "reshape to [4, 16, 32], transpose(2,0,1)".
std::string in_words(const Layout& layout, const Shape& from, const Shape& to);

}  // namespace tandem::kinship
