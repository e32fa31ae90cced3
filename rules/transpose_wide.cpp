// Tiles of elements of 2 and 4 bytes, two squares at once.
#include <cstdint>

#include "rules/transpose.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rules/transpose_wide.cpp"
#include <hwy/foreach_target.h>  // compiles this file once for each set of instructions
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tandem::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_MAX_BYTES >= 32

using Bytes = hn::FixedTag<uint8_t, 32>;  // elements need not be aligned
using Halves = hn::Repartition<uint16_t, Bytes>;
using Words = hn::Repartition<uint32_t, Bytes>;
using Pairs = hn::Repartition<uint64_t, Bytes>;

// A square has as many elements a side as 16 bytes hold. Of two squares, one below the other, a column is 32
// bytes in a row. Strides are in bytes.

/// Row `row` of the upper square, and of the lower one.
HWY_INLINE auto both_rows(const uint8_t* from, size_t from_stride, size_t row, size_t side) {
  const hn::Half<Bytes> half;
  return hn::Combine(Bytes(), hn::LoadU(half, from + (row + side) * from_stride),
                     hn::LoadU(half, from + row * from_stride));
}

/// Four columns of four rows of words.
template <class V>
HWY_INLINE void four_columns(V row0, V row1, V row2, V row3, uint8_t* to, size_t to_stride) {
  const Words d;
  const Pairs pairs;
  const auto store = [&](size_t column, auto made) {
    hn::StoreU(hn::BitCast(Bytes(), made), Bytes(), to + column * to_stride);
  };
  const auto low = hn::BitCast(pairs, hn::InterleaveLower(d, row0, row1));
  const auto high = hn::BitCast(pairs, hn::InterleaveUpper(d, row0, row1));
  const auto low_after = hn::BitCast(pairs, hn::InterleaveLower(d, row2, row3));
  const auto high_after = hn::BitCast(pairs, hn::InterleaveUpper(d, row2, row3));
  store(0, hn::InterleaveLower(pairs, low, low_after));
  store(1, hn::InterleaveUpper(pairs, low, low_after));
  store(2, hn::InterleaveLower(pairs, high, high_after));
  store(3, hn::InterleaveUpper(pairs, high, high_after));
}

HWY_INLINE void two_squares(const uint8_t* from, size_t from_stride, uint8_t* to, size_t to_stride,
                            uint16_t) {
  const Halves d;
  const auto rows = [&](size_t row) { return hn::BitCast(d, both_rows(from, from_stride, row, 8)); };
  const auto r0 = rows(0), r1 = rows(1), r2 = rows(2), r3 = rows(3);
  const auto r4 = rows(4), r5 = rows(5), r6 = rows(6), r7 = rows(7);
  const auto words = [](auto pair) { return hn::BitCast(Words(), pair); };  // of an upper and a lower row
  four_columns(words(hn::InterleaveLower(d, r0, r1)), words(hn::InterleaveLower(d, r2, r3)),
               words(hn::InterleaveLower(d, r4, r5)), words(hn::InterleaveLower(d, r6, r7)), to, to_stride);
  four_columns(words(hn::InterleaveUpper(d, r0, r1)), words(hn::InterleaveUpper(d, r2, r3)),
               words(hn::InterleaveUpper(d, r4, r5)), words(hn::InterleaveUpper(d, r6, r7)),
               to + 4 * to_stride, to_stride);
}

HWY_INLINE void two_squares(const uint8_t* from, size_t from_stride, uint8_t* to, size_t to_stride,
                            uint32_t) {
  const auto rows = [&](size_t row) { return hn::BitCast(Words(), both_rows(from, from_stride, row, 4)); };
  four_columns(rows(0), rows(1), rows(2), rows(3), to, to_stride);
}

template <class T>
uint64_t transpose(const uint8_t* from, uint64_t from_stride, uint8_t* to, uint64_t to_stride, uint64_t rows,
                   uint64_t columns) {
  constexpr uint64_t kSize = sizeof(T), kSide = 16 / kSize;
  const uint64_t whole = rows / (2 * kSide) * (2 * kSide);
  for (uint64_t column = 0; column + kSide <= columns; column += kSide)
    for (uint64_t row = 0; row < whole; row += 2 * kSide)
      two_squares(from + (row * from_stride + column) * kSize, from_stride * kSize,
                  to + (column * to_stride + row) * kSize, to_stride * kSize, T{});
  return whole;
}

#else  // no vectors of 32 bytes

template <class T>
uint64_t transpose(const uint8_t*, uint64_t, uint8_t*, uint64_t, uint64_t, uint64_t) {
  return 0;
}

#endif

uint64_t TransposeWide(size_t element, const uint8_t* from, uint64_t from_stride, uint8_t* to,
                       uint64_t to_stride, uint64_t rows, uint64_t columns) {
  const auto by = element == 2 ? transpose<uint16_t> : transpose<uint32_t>;
  return by(from, from_stride, to, to_stride, rows, columns);
}

}  // namespace tandem::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem {

HWY_EXPORT(TransposeWide);

uint64_t transpose_wide(size_t element, const std::byte* from, uint64_t from_stride, std::byte* to,
                        uint64_t to_stride, uint64_t rows, uint64_t columns) {
  return HWY_DYNAMIC_DISPATCH(TransposeWide)(element, reinterpret_cast<const uint8_t*>(from), from_stride,
                                             reinterpret_cast<uint8_t*>(to), to_stride, rows, columns);
}

}  // namespace tandem
#endif
