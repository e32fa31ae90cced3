#include "rules/convert_run.h"

#include <cmath>
#include <cstring>

#include "rules/dequantize.h"

namespace tandem {
namespace {

std::array<float, 256> decode_table() {
  std::array<float, 256> values;
  for (size_t code = 0; code < 256; code++) values[code] = f8_e4m3_to_f32(static_cast<uint8_t>(code));
  return values;
}

template <class T>
std::span<std::byte> bytes_of(T* values, uint64_t count) {
  return std::as_writable_bytes(std::span(values, count));
}

}  // namespace

ScaleGrid ScaleGrid::transposed() const {
  ScaleGrid other{{shape[1], shape[0]}, block_columns, block_rows, std::vector<float>(scales.size())};
  const uint64_t columns = grid_columns(), rows = other.grid_columns();
  for (uint64_t i = 0; i < scales.size(); i++) other.scales[i % columns * rows + i / columns] = scales[i];
  return other;
}

ConvertRun cast_run(DType from, DType to) {
  if (from == to) return {};
  return {[from, to](uint64_t, std::span<const std::byte> in, std::span<std::byte> out) {
            return cast(from, in, to, out);
          },
          false};
}

ConvertRun dequantize_run(ScaleGrid grid, DType to) {
  auto run = [grid = std::move(grid), to](uint64_t first, std::span<const std::byte> in,
                                          std::span<std::byte> out) -> Result<CastCounts> {
    static const std::array<float, 256> decoded = decode_table();
    CastCounts counts;
    std::array<float, kPiece> values;
    Status status;
    grid.for_each_piece(first, in.size(), [&](uint64_t offset, uint64_t count, uint64_t scale) {
      if (to == DType::bf16) {
        counts += dequantize_to_bf16(&in[offset], count, grid.scales[scale], &out[2 * offset]);
        return;
      }
      for (uint64_t i = 0; i < count; i++)
        values[i] = decoded[static_cast<uint8_t>(in[offset + i])] * grid.scales[scale];
      const auto cast_counts = cast(DType::f32, bytes_of(values.data(), count), to,
                                    out.subspan(offset * size_of(to), count * size_of(to)));
      if (cast_counts.ok())
        counts += cast_counts.value();
      else
        status = cast_counts.error();
    });
    TANDEM_CHECK(std::move(status));
    return counts;
  };
  return {std::move(run), true};
}

namespace {

/// One piece under one scale.
CastCounts quantize_piece(std::span<const float> values, float scale, std::span<const std::byte> in,
                          DType from, std::span<std::byte> out) {
  CastCounts counts;
  std::array<float, kPiece> again;
  for (size_t i = 0; i < values.size(); i++) {
    const uint8_t code = f32_to_f8_e4m3(values[i] / scale);
    out[i] = std::byte{code};
    again[i] = f8_e4m3_to_f32(code) * scale;
    counts.overflowed += std::isnan(again[i]) && !std::isnan(values[i]);
    counts.flushed += again[i] == 0 && values[i] != 0;
  }
  std::array<std::byte, kPiece * 8> stored;
  const size_t size = size_of(from);
  const auto bytes = std::span(stored).first(values.size() * size);
  if (!cast(DType::f32, bytes_of(again.data(), values.size()), from, bytes).ok()) return counts;
  for (size_t i = 0; i < values.size(); i++)
    counts.rounded += !std::isnan(values[i]) && std::memcmp(&stored[i * size], &in[i * size], size) != 0;
  return counts;
}

}  // namespace

ConvertRun quantize_run(ScaleGrid grid, DType from) {
  auto run = [grid = std::move(grid), from](uint64_t first, std::span<const std::byte> in,
                                            std::span<std::byte> out) -> Result<CastCounts> {
    CastCounts counts;
    std::array<float, kPiece> values;
    Status status;
    grid.for_each_piece(first, out.size(), [&](uint64_t offset, uint64_t count, uint64_t scale) {
      const auto piece = in.subspan(offset * size_of(from), count * size_of(from));
      if (const auto widened = cast(from, piece, DType::f32, bytes_of(values.data(), count)); !widened.ok())
        status = widened.error();
      else
        counts += quantize_piece(std::span(values).first(count), grid.scales[scale], piece, from,
                                 out.subspan(offset, count));
    });
    TANDEM_CHECK(std::move(status));
    return counts;
  };
  return {std::move(run), true};
}

Result<ScaleGrid> read_scales(const TensorSource& source, const TensorInfo& scales, const Shape& weight,
                              uint64_t block_rows, uint64_t block_columns) {
  TANDEM_TRY(const uint64_t count, element_count(scales.shape));
  ScaleGrid grid{weight, block_rows, block_columns, std::vector<float>(count)};
  TANDEM_CHECK(source.read(scales.name, 0, bytes_of(grid.scales.data(), count)));
  for (uint64_t i = 0; i < count; i++)
    if (!std::isfinite(grid.scales[i]) || grid.scales[i] <= 0)
      return invalid("scale_c1", "{}: scale [{}, {}] is {}, expected a positive finite number", scales.name,
                     i / scales.shape[1], i % scales.shape[1], grid.scales[i])
          .at(source.location(scales.name));
  return grid;
}

}  // namespace tandem
