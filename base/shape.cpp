#include "base/shape.h"

#include <fmt/ranges.h>

namespace tandem {

std::optional<uint64_t> checked_add(uint64_t a, uint64_t b) {
  uint64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

std::optional<uint64_t> checked_mul(uint64_t a, uint64_t b) {
  uint64_t product;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

Result<uint64_t> element_count(const Shape& shape) {
  uint64_t product = 1;
  bool empty = false;
  for (uint64_t size : shape) {
    if (size == 0) {
      empty = true;
      continue;
    }
    const auto next = checked_mul(product, size);
    if (!next) return corrupt("shape_c1", "shape {} has more elements than 64 bits count", to_string(shape));
    product = *next;
  }
  return empty ? 0 : product;
}

Result<uint64_t> byte_count(DType dtype, const Shape& shape) {
  TANDEM_TRY(const uint64_t elements, element_count(shape));
  const auto bytes = checked_mul(elements, size_of(dtype));
  if (!bytes) return corrupt("shape_c1", "{}{} has more bytes than 64 bits count", dtype, to_string(shape));
  return *bytes;
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

Box whole(const Shape& shape) { return {Shape(shape.size(), 0), shape}; }

uint64_t element_count(const Box& box) {
  uint64_t product = 1;
  for (uint64_t size : box.size) product *= size;
  return product;
}

bool contains(const Shape& shape, const Box& box) {
  if (box.begin.size() != shape.size() || box.size.size() != shape.size()) return false;
  for (size_t axis = 0; axis < shape.size(); ++axis)
    if (box.begin[axis] > shape[axis] || box.size[axis] > shape[axis] - box.begin[axis]) return false;
  return true;
}

}  // namespace tandem
