#pragma once
// Element conversions over runs: cast, fp8 with block scales, and fp8 again. For the rest of this folder.

#include <algorithm>
#include <functional>
#include <vector>

#include "base/tensor_source.h"

namespace tandem {

/// Converts elements that lie side by side in a tensor; `first` is the flat index of the first.
class ConvertRun {
 public:
  using Run = std::function<Result<CastCounts>(uint64_t first, std::span<const std::byte> from,
                                               std::span<std::byte> to)>;
  ConvertRun() = default;  ///< false: elements are copied
  ConvertRun(Run run, bool by_place) : run_(std::move(run)), by_place_(by_place) {}
  explicit operator bool() const { return static_cast<bool>(run_); }
  Result<CastCounts> operator()(uint64_t first, std::span<const std::byte> from,
                                std::span<std::byte> to) const {
    return run_(first, from, to);
  }
  /// What it makes of an element depends on the element's place: blocks have scales.
  bool by_place() const { return by_place_; }

 private:
  Run run_;
  bool by_place_ = false;
};

/// Scales of a matrix, one a block, in the orientation of that matrix.
struct ScaleGrid {
  Shape shape;  ///< of the matrix
  uint64_t block_rows, block_columns;
  std::vector<float> scales;  ///< row-major

  uint64_t grid_columns() const { return (shape[1] + block_columns - 1) / block_columns; }
  ScaleGrid transposed() const;
  /// Calls visit(offset, count, index of scale) for pieces of the run [first, first + count): each lies in
  /// one row of one block and has at most kPiece elements.
  template <class Visit>
  void for_each_piece(uint64_t first, uint64_t count, const Visit& visit) const;
};
inline constexpr uint64_t kPiece = 256;

ConvertRun cast_run(DType from, DType to);  ///< both float, or the same
/// f8_e4m3 codes to `to`: code * scale in f32, then rounded once.
ConvertRun dequantize_run(ScaleGrid grid, DType to);
/// `from` to the f8_e4m3 codes nearest to value / scale. `rounded` counts values that dequantizing does not
/// give back.
ConvertRun quantize_run(ScaleGrid grid, DType from);

/// The scale tensor of a weight as a grid. Errors: scale_c1 for a scale that is not a positive finite number;
/// those of read.
Result<ScaleGrid> read_scales(const TensorSource& source, const TensorInfo& scales, const Shape& weight,
                              uint64_t block_rows, uint64_t block_columns);

template <class Visit>
void ScaleGrid::for_each_piece(uint64_t first, uint64_t count, const Visit& visit) const {
  uint64_t row = first / shape[1], column = first % shape[1];
  for (uint64_t offset = 0; offset < count;) {
    const uint64_t in_block = block_columns - column % block_columns;
    const uint64_t size = std::min({in_block, shape[1] - column, count - offset, kPiece});
    visit(offset, size, row / block_rows * grid_columns() + column / block_columns);
    offset += size;
    column += size;
    if (column == shape[1]) row++, column = 0;
  }
}

}  // namespace tandem
