#pragma once
// Small matrices with rows and columns exchanged. For the rest of this folder.

#include <cstddef>
#include <cstdint>

namespace tandem {

/// to[column * to_stride + row] = from[row * from_stride + column]; strides in elements of `element` bytes
/// (1, 2, 4 or 8). The two do not overlap. Meant for tiles that fit in a cache.
void transpose_tile(size_t element, const std::byte* from, uint64_t from_stride, std::byte* to,
                    uint64_t to_stride, uint64_t rows, uint64_t columns);

}  // namespace tandem
