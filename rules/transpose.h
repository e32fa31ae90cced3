#pragma once
// Small matrices with rows and columns exchanged. For the rest of this folder.

#include <cstddef>
#include <cstdint>

namespace tandem {

/// to[column * to_stride + row] = from[row * from_stride + column]; strides in elements of `element` bytes
/// (1, 2, 4 or 8). The two do not overlap. Meant for tiles that fit in a cache.
void transpose_tile(size_t element, const std::byte* from, uint64_t from_stride, std::byte* to,
                    uint64_t to_stride, uint64_t rows, uint64_t columns);

/// The same of elements of 2 or 4 bytes, where the processor has vectors of 32 bytes: of as many rows as are
/// whole numbers of 32 bytes, and as many columns as are of 16. How many rows that was, or 0. For
/// transpose_tile.
uint64_t transpose_wide(size_t element, const std::byte* from, uint64_t from_stride, std::byte* to,
                        uint64_t to_stride, uint64_t rows, uint64_t columns);

}  // namespace tandem
