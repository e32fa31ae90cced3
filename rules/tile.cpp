#include "rules/tile.h"

#include <cstring>

#include "rules/transpose.h"

namespace tandem {
namespace {

// Rows become runs of the view: with 64 of them instead of 256 most of the time went into lines that were
// written in parts. All of a tile fits in a cache.
constexpr uint64_t kRows = 256, kRowBytes = 512;
constexpr uint64_t kStride = kRowBytes + 32;  // no power of two: columns lie in different cache sets
constexpr uint64_t kCacheLine = 64;
constexpr uint64_t kAhead = 64;  // rows: a second-level cache holds them and the tile

/// Rows are short and far apart, which no processor foresees: without this a third of turning is waiting.
/// Into the second-level cache, as the first one is full of the tile.
void fetch(const std::byte* row, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += kCacheLine) __builtin_prefetch(row + at, 0, 2);
}

}  // namespace

// A cast that widens comes last: less to transpose, and long runs to cast.
Tile::Tile(size_t from, size_t to, const ConvertRun& convert)
    : from_(from),
      to_(to),
      convert_(convert),
      cast_last_(convert && !convert.by_place() && from < to),
      element_(cast_last_ ? from : to),
      tile_(std::make_unique_for_overwrite<std::byte[]>(kRows * kStride)),
      turned_(cast_last_ ? std::make_unique_for_overwrite<std::byte[]>(kRows * kRowBytes) : nullptr) {}

uint64_t Tile::rows() const { return kRows; }
uint64_t Tile::columns() const { return kRowBytes / element_; }

Result<CastCounts> Tile::turn(const Source& source, std::byte* to, uint64_t to_stride, uint64_t rows,
                              uint64_t columns) {
  CastCounts counts;
  TANDEM_CHECK(gather(source, rows, columns, counts));
  transpose_tile(element_, tile_.get(), kStride / element_, cast_last_ ? turned_.get() : to,
                 cast_last_ ? kRows : to_stride, rows, columns);
  if (cast_last_) TANDEM_CHECK(cast_columns(to, to_stride, rows, columns, counts));
  return counts;
}

Status Tile::gather(const Source& source, uint64_t rows, uint64_t columns, CastCounts& counts) {
  for (uint64_t row = 0; row < rows; row++) {
    const std::byte* const in = source.bytes + row * source.stride * from_;
    if (row + kAhead < rows + source.rows_below) fetch(in + kAhead * source.stride * from_, columns * from_);
    std::byte* const made = tile_.get() + row * kStride;
    if (!convert_ || cast_last_) {  // rows are short: a call for each would cost a quarter of the copying
      std::memcpy(made, in, columns * from_);
      continue;
    }
    TANDEM_TRY(const CastCounts more, convert_(source.first + row * source.first_stride,
                                               {in, columns * from_}, {made, columns * to_}));
    counts += more;
  }
  return {};
}

Status Tile::cast_columns(std::byte* to, uint64_t to_stride, uint64_t rows, uint64_t columns,
                          CastCounts& counts) {
  for (uint64_t column = 0; column < columns; column++) {
    TANDEM_TRY(const CastCounts more, convert_(0, {turned_.get() + column * kRows * from_, rows * from_},
                                               {to + column * to_stride * to_, rows * to_}));
    counts += more;
  }
  return {};
}

}  // namespace tandem
