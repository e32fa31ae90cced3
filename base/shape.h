#pragma once
// Shapes, boxes in them, and checked arithmetic on sizes. Outermost axis first, everywhere.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace tandem {

using Shape = std::vector<uint64_t>;

/// a + b and a * b, or nothing where they do not fit in 64 bits.
std::optional<uint64_t> checked_add(uint64_t a, uint64_t b);
std::optional<uint64_t> checked_mul(uint64_t a, uint64_t b);

/// The number of elements. Errors: shape_c1 if the product of the non-zero sizes overflows (also when another
/// size is 0).
Result<uint64_t> element_count(const Shape& shape);
/// The number of bytes of a tensor. Errors: shape_c1.
Result<uint64_t> byte_count(DType dtype, const Shape& shape);

/// "[2, 3]"; "[]" for a scalar.
std::string to_string(const Shape& shape);

/// A box of elements: `size` elements an axis, from `begin` on. The same rank as the shape it lies in.
struct Box {
  Shape begin;
  Shape size;
};
/// The box of everything.
Box whole(const Shape& shape);
/// The product of the box's sizes.
uint64_t element_count(const Box& box);
/// True if box lies inside shape.
bool contains(const Shape& shape, const Box& box);

}  // namespace tandem
