#pragma once
// Parts of a matrix that are transposed at once, and converted on the way. For the rest of this folder.

#include <memory>

#include "rules/convert_run.h"

namespace tandem {

/// A place to turn tiles in; its memory is used again from one to the next.
class Tile {
 public:
  /// `from` and `to`: bytes of an element of the source and of the view. `convert` must stay where it is.
  Tile(size_t from, size_t to, const ConvertRun& convert);
  uint64_t rows() const;     ///< of the source, at most
  uint64_t columns() const;  ///< of the source, at most

  /// Where a tile lies in the source. Strides are between rows.
  struct Source {
    const std::byte* bytes;
    uint64_t stride;               ///< in elements
    uint64_t first, first_stride;  ///< flat index of the first element in its tensor, as `convert` wants it
    uint64_t rows_below;           ///< that follow the tile's, in memory too: where the next tile lies
  };
  /// Column c of the source becomes the elements from to + c * to_stride on; to_stride counts elements.
  /// Errors: of convert.
  Result<CastCounts> turn(const Source& source, std::byte* to, uint64_t to_stride, uint64_t rows,
                          uint64_t columns);

 private:
  Status gather(const Source& source, uint64_t rows, uint64_t columns, CastCounts& counts);
  Status cast_columns(std::byte* to, uint64_t to_stride, uint64_t rows, uint64_t columns, CastCounts& counts);

  size_t from_, to_;
  const ConvertRun& convert_;
  bool cast_last_;
  size_t element_;  ///< bytes of one in tile_
  std::unique_ptr<std::byte[]> tile_, turned_;
};

}  // namespace tandem
