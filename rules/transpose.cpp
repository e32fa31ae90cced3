#include "rules/transpose.h"

#include <cstring>

namespace tandem {
namespace {

template <class T>
void transpose_plain(const std::byte* from, uint64_t from_stride, std::byte* to, uint64_t to_stride,
                     uint64_t rows, uint64_t columns) {
  for (uint64_t column = 0; column < columns; column++)
    for (uint64_t row = 0; row < rows; row++)
      std::memcpy(to + (column * to_stride + row) * sizeof(T),
                  from + (row * from_stride + column) * sizeof(T), sizeof(T));
}

// 16 bytes, as the compilers' vectors: every processor that we run on has them.
using Words16 = uint16_t __attribute__((vector_size(16)));
using Words32 = uint32_t __attribute__((vector_size(16)));
using Words64 = uint64_t __attribute__((vector_size(16)));

template <class Vector>
Vector load(const std::byte* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof vector);
  return vector;
}

// a0 b0 a1 b1 ..., of the first halves and of the second.
Words16 lower(Words16 a, Words16 b) { return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11); }
Words16 upper(Words16 a, Words16 b) { return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15); }
Words32 lower(Words32 a, Words32 b) { return __builtin_shufflevector(a, b, 0, 4, 1, 5); }
Words32 upper(Words32 a, Words32 b) { return __builtin_shufflevector(a, b, 2, 6, 3, 7); }
Words64 lower(Words64 a, Words64 b) { return __builtin_shufflevector(a, b, 0, 2); }
Words64 upper(Words64 a, Words64 b) { return __builtin_shufflevector(a, b, 1, 3); }

/// Four rows of four elements: rows of two become one of pairs, and those two halves of columns.
void four_columns(const Words32 (&row)[4], std::byte* to, uint64_t to_stride_bytes) {
  const auto first = reinterpret_cast<Words64>(lower(row[0], row[1])),
             second = reinterpret_cast<Words64>(lower(row[2], row[3]));
  const auto third = reinterpret_cast<Words64>(upper(row[0], row[1])),
             fourth = reinterpret_cast<Words64>(upper(row[2], row[3]));
  const Words64 columns[] = {lower(first, second), upper(first, second), lower(third, fourth),
                             upper(third, fourth)};
  for (size_t i = 0; i < 4; i++) std::memcpy(to + i * to_stride_bytes, &columns[i], 16);
}

/// A square of as many elements as 16 bytes hold.
void transpose_square(const std::byte* from, uint64_t from_stride, std::byte* to, uint64_t to_stride,
                      uint32_t) {
  Words32 row[4];
  for (size_t i = 0; i < 4; i++) row[i] = load<Words32>(from + i * from_stride * 4);
  four_columns(row, to, to_stride * 4);
}

void transpose_square(const std::byte* from, uint64_t from_stride, std::byte* to, uint64_t to_stride,
                      uint16_t) {
  Words32 left[4], right[4];  // pairs of rows; columns 0 to 3 and 4 to 7
  for (size_t i = 0; i < 4; i++) {
    const auto a = load<Words16>(from + 2 * i * from_stride * 2),
               b = load<Words16>(from + (2 * i + 1) * from_stride * 2);
    left[i] = reinterpret_cast<Words32>(lower(a, b));
    right[i] = reinterpret_cast<Words32>(upper(a, b));
  }
  four_columns(left, to, to_stride * 2);
  four_columns(right, to + 4 * to_stride * 2, to_stride * 2);
}

/// Squares of 16 bytes a side; what is left at the edges one by one.
template <class T>
void transpose_squares(const std::byte* from, uint64_t from_stride, std::byte* to, uint64_t to_stride,
                       uint64_t rows, uint64_t columns) {
  constexpr uint64_t kSide = 16 / sizeof(T);
  const uint64_t whole_rows = rows / kSide * kSide, whole_columns = columns / kSide * kSide;
  for (uint64_t column = 0; column < whole_columns; column += kSide)
    for (uint64_t row = 0; row < whole_rows; row += kSide) {
      transpose_square(from + (row * from_stride + column) * sizeof(T), from_stride,
                       to + (column * to_stride + row) * sizeof(T), to_stride, T{});
    }
  transpose_plain<T>(from + whole_rows * from_stride * sizeof(T), from_stride, to + whole_rows * sizeof(T),
                     to_stride, rows - whole_rows, whole_columns);
  transpose_plain<T>(from + whole_columns * sizeof(T), from_stride,
                     to + whole_columns * to_stride * sizeof(T), to_stride, rows, columns - whole_columns);
}

/// Two squares at once where that goes, and the rest by one.
template <class T>
void transpose_vectors(const std::byte* from, uint64_t from_stride, std::byte* to, uint64_t to_stride,
                       uint64_t rows, uint64_t columns) {
  const uint64_t done = transpose_wide(sizeof(T), from, from_stride, to, to_stride, rows, columns);
  const uint64_t whole_columns = columns / (16 / sizeof(T)) * (16 / sizeof(T));
  transpose_plain<T>(from + whole_columns * sizeof(T), from_stride,
                     to + whole_columns * to_stride * sizeof(T), to_stride, done, columns - whole_columns);
  transpose_squares<T>(from + done * from_stride * sizeof(T), from_stride, to + done * sizeof(T), to_stride,
                       rows - done, columns);
}

}  // namespace

void transpose_tile(size_t element, const std::byte* from, uint64_t from_stride, std::byte* to,
                    uint64_t to_stride, uint64_t rows, uint64_t columns) {
  const auto transpose = element == 1   ? transpose_plain<uint8_t>
                         : element == 2 ? transpose_vectors<uint16_t>
                         : element == 4 ? transpose_vectors<uint32_t>
                                        : transpose_plain<uint64_t>;
  transpose(from, from_stride, to, to_stride, rows, columns);
}

}  // namespace tandem
