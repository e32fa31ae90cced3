#include "rules/transpose.h"

#include <gtest/gtest.h>

#include <vector>

namespace tandem {
namespace {

TEST(TransposeTile, PutsEveryElementInItsPlaceAndTouchesNoOther) {
  for (const size_t element : {1, 2, 4, 8})
    for (const uint64_t rows : {1, 3, 8, 9, 13, 16, 28, 41, 64})
      for (const uint64_t columns : {1, 4, 7, 16, 30}) {
        const uint64_t from_stride = columns + 3, to_stride = rows + 5;
        std::vector<std::byte> from(rows * from_stride * element),
            to(columns * to_stride * element, std::byte{0xee});
        for (size_t i = 0; i < from.size(); i++) from[i] = static_cast<std::byte>(i * 2654435761u >> 11);
        transpose_tile(element, from.data(), from_stride, to.data(), to_stride, rows, columns);
        for (uint64_t column = 0; column < columns; column++)
          for (uint64_t row = 0; row < to_stride; row++)
            for (size_t byte = 0; byte < element; byte++)
              ASSERT_EQ(to[(column * to_stride + row) * element + byte],
                        row < rows ? from[(row * from_stride + column) * element + byte] : std::byte{0xee})
                  << element << " " << rows << "x" << columns << " at " << row << ", " << column;
      }
}

}  // namespace
}  // namespace tandem
