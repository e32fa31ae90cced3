#include "rules/view.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/big_buffer.h"
#include "base/contained.h"
#include "rules/row.h"
#include "rules/tile.h"

namespace tandem {
namespace {

constexpr uint64_t kLeastMemory = 64;      // a few elements of any dtype
constexpr uint64_t kCopyBuffer = 1 << 20;  // of reads gaps and all; fits in a cache
constexpr uint64_t kCastBuffer =
    64 << 10;  // of reads that are cast: in the nearest cache, and no new pages each time
// A read of its own costs about as much as reading this many bytes more (measured in the page cache; a disk
// says more).
constexpr uint64_t kGap = 16 << 10;
constexpr uint64_t kBand = 2 << 20;         // what one thread reads of a block at a time
constexpr uint64_t kLeastWindow = 1 << 20;  // a smaller block is read sooner than mapped

Shape strides_of(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
  return strides;
}

/// What lies on the view's axis i, put on the source's axis axes[i].
Shape on_source_axes(const Shape& of_view, const std::vector<uint64_t>& axes) {
  Shape of_source(axes.size());
  for (size_t i = 0; i < axes.size(); i++) of_source[axes[i]] = of_view[i];
  return of_source;
}

uint64_t dot(const Shape& a, const Shape& b) {
  uint64_t sum = 0;
  for (size_t i = 0; i < a.size(); i++) sum += a[i] * b[i];
  return sum;
}

Result<CastCounts> convert_or_copy(const ConvertRun& convert, uint64_t first, std::span<const std::byte> from,
                                   std::span<std::byte> to) {
  if (convert) return convert(first, from, to);
  std::copy(from.begin(), from.end(), to.begin());
  return CastCounts{};
}

}  // namespace

Shape View::shape() const { return permuted(source_shape, axes); }

bool View::in_order() const {
  std::vector<uint64_t> moving;
  for (uint64_t axis : axes)
    if (source_shape[axis] != 1) moving.push_back(axis);
  return std::is_sorted(moving.begin(), moving.end());
}

Status View::read_source(uint64_t first, std::span<std::byte> out) const {
  if (slot) first += *slot * element_count(whole(source_shape));
  return source->read(tensor->name, first * size_of(tensor->dtype), out);
}

std::unique_ptr<FileWindow> View::window_on_source(uint64_t first, uint64_t size) const {
  if (slot) first += *slot * element_count(whole(source_shape));
  return source->window(tensor->name, first * size_of(tensor->dtype), size);
}

namespace {

/// A box of the view's source where it lies, if that is one piece, and one that casts can read; else nullptr.
std::unique_ptr<FileWindow> window_on(const View& view, const Box& box) {
  const size_t element = size_of(view.tensor->dtype);
  const uint64_t bytes = element_count(box) * element;
  if (bytes < kLeastWindow ||
      !std::equal(box.size.begin() + 1, box.size.end(), view.source_shape.begin() + 1))
    return nullptr;
  auto window = view.window_on_source(box.begin[0] * (bytes / element / box.size[0]), bytes);
  if (window && reinterpret_cast<uintptr_t>(window->bytes()) % element != 0) return nullptr;
  return window;
}

/// A box of the view's source. Columns of a matrix with small gaps between them are read gaps and all, many
/// rows at once.
Status read_source_box(const View& view, const Box& box, std::span<std::byte> out) {
  const size_t element = size_of(view.tensor->dtype);
  const uint64_t row = view.source_shape.back(), columns = box.size.back();
  const uint64_t rows = std::min(box.size[0], kCopyBuffer / (row * element));
  if (box.size.size() == 2 && columns < row && rows > 1 && (row - columns) * element < kGap) {
    std::vector<std::byte> buffer(rows * row * element);
    const size_t piece = columns * element;
    for (uint64_t done = 0; done < box.size[0]; done += rows) {
      const uint64_t count = std::min(rows, box.size[0] - done);
      const auto bytes = std::span(buffer).first(((count - 1) * row + columns) * element);
      TANDEM_CHECK(view.read_source((box.begin[0] + done) * row + box.begin[1], bytes));
      for (uint64_t i = 0; i < count; i++)
        std::memcpy(out.data() + (done + i) * piece, bytes.data() + i * row * element, piece);
    }
    return {};
  }
  Box of_tensor = box;
  if (view.slot) {
    of_tensor.begin.insert(of_tensor.begin.begin(), *view.slot);
    of_tensor.size.insert(of_tensor.size.begin(), 1);
  }
  return read_box(*view.source, *view.tensor, of_tensor, out);
}

}  // namespace

Box next_box(const Shape& shape, uint64_t first, uint64_t count) {
  const Shape strides = strides_of(shape);
  Box box{Shape(shape.size()), Shape(shape.size(), 1)};
  for (size_t axis = 0; axis < shape.size(); axis++) box.begin[axis] = first / strides[axis] % shape[axis];
  for (size_t axis = 0; axis < shape.size(); axis++) {
    if (first % strides[axis] != 0 || strides[axis] > count) continue;
    box.size[axis] = std::min(count / strides[axis], shape[axis] - box.begin[axis]);
    std::copy(shape.begin() + axis + 1, shape.end(), box.size.begin() + axis + 1);
    break;
  }
  return box;
}

/// Memory that blocks use one after the other: new pages cost as much as filling them.
struct ViewReader::Room {
  uint64_t size = 0;
  BigBuffer bytes;
};

/// A box of a source tensor in memory, in the source's dtype and order: its file's own, or read into a room.
struct ViewReader::Block {
  const View* view;
  Box view_box;
  Box source_box;
  Room room;
  std::unique_ptr<FileWindow> window;  ///< if not null, the room is empty
  uint64_t next = 0, loaded = 0;       ///< rows of source_box that are begun, and that are there
  bool failed = false;                 ///< some of them could not be read

  const std::byte* data() const { return window ? window->bytes() : room.bytes.get(); }

  /// The next rows to read.
  Box next_band() {
    Box band = source_box;
    const uint64_t row = element_count(source_box) / source_box.size[0] * size_of(view->tensor->dtype);
    band.begin[0] += next;
    band.size[0] = std::min(std::max<uint64_t>(kBand / row, 1), source_box.size[0] - next);
    next += band.size[0];
    return band;
  }
};

ViewReader::~ViewReader() = default;

// A read below small_ loads what it asked for, and no more.
ViewReader::ViewReader(uint64_t memory)
    : memory_(std::max(memory, kLeastMemory)), small_(std::min<uint64_t>(memory_ / 4, 256 << 10)) {}

Result<CastCounts> ViewReader::read(const View& view, const ConvertRun& convert, uint64_t first,
                                    std::span<std::byte> out) const {
  if (view.in_order()) return read_in_order(view, convert, first, out);
  const Shape shape = view.shape();
  const size_t element = size_of(view.dtype);
  const uint64_t fitting = memory_ / size_of(view.tensor->dtype);  // elements of the source
  const uint64_t row = strides_of(shape)[0];
  const uint64_t block_rows = fitting / row;
  CastCounts counts;
  while (!out.empty()) {
    uint64_t count = out.size() / element;
    Box box;
    const auto convert_it = [&](const Block& block) -> Status {
      TANDEM_TRY(const CastCounts more,
                 convert_box(view, convert, block, box, out.first(element_count(box) * element)));
      counts += more;
      return block.window ? block.window->intact() : Status{};
    };
    if (block_rows > 0 && out.size() >= small_) {
      const uint64_t begin = first / row / block_rows * block_rows;
      const uint64_t rows = std::min(block_rows, shape[0] - begin);
      count = std::min(count, (begin + rows) * row - first);
      box = next_box(shape, first, count);
      TANDEM_CHECK(with_row_block(view, begin, rows, convert_it));
    } else {
      box = next_box(shape, first, std::min(count, fitting));
      Block block = empty_block(view, box, {});
      TANDEM_CHECK(read_band(block, block.source_box));
      TANDEM_CHECK(convert_it(block));
    }
    count = element_count(box);
    first += count;
    out = out.subspan(count * element);
  }
  return counts;
}

Result<CastCounts> ViewReader::read_in_order(const View& view, const ConvertRun& convert, uint64_t first,
                                             std::span<std::byte> out) const {
  if (!convert) {
    TANDEM_CHECK(view.read_source(first, out));
    return CastCounts{};
  }
  const size_t from = size_of(view.tensor->dtype), to = size_of(view.dtype);
  const uint64_t limit = std::min(memory_, kCastBuffer) / from;
  std::vector<std::byte> buffer(std::min<uint64_t>(limit, out.size() / to) * from);
  CastCounts counts;
  while (!out.empty()) {
    const uint64_t count = std::min<uint64_t>(limit, out.size() / to);
    const auto bytes = std::span(buffer).first(count * from);
    TANDEM_CHECK(view.read_source(first, bytes));
    TANDEM_TRY(const CastCounts more, convert(first, bytes, out.first(count * to)));
    counts += more;
    first += count;
    out = out.subspan(count * to);
  }
  return counts;
}

void ViewReader::release() const {
  const std::lock_guard lock(mutex_);
  last_.reset();
}

Status ViewReader::with_row_block(const View& view, uint64_t first_row, uint64_t rows,
                                  const std::function<Status(const Block&)>& use) const {
  std::unique_lock lock(mutex_);
  const auto outside = [&](const auto& work) {  // what other threads may do meanwhile
    ++users_;
    lock.unlock();
    Status status = contained(work);
    lock.lock();
    --users_;
    changed_.notify_all();
    return status;
  };
  while (true) {
    const bool wanted =
        last_ && !last_->failed && last_->view == &view && last_->view_box.begin[0] == first_row;
    if (wanted && last_->loaded == last_->source_box.size[0]) return outside([&] { return use(*last_); });
    if (wanted && last_->next < last_->source_box.size[0]) {  // threads that want one block load it together
      Block& block = *last_;
      const Box band = block.next_band();
      const Status read = outside([&] { return read_band(block, band); });
      if (!read.ok()) {
        block.failed = true;  // whoever wants it next begins anew, once those who read into it have left
        return read;
      }
      block.loaded += band.size[0];
    } else if (!wanted && users_ == 0) {
      Box box = whole(view.shape());
      box.begin[0] = first_row;
      box.size[0] = rows;
      Room room = last_ ? std::move(last_->room) : Room{};
      last_.reset();
      last_ = std::make_unique<Block>(empty_block(view, box, std::move(room)));
    } else {
      changed_.wait(lock);
    }
  }
}

ViewReader::Block ViewReader::empty_block(const View& view, const Box& box, Room room) {
  Block block{&view,
              box,
              {on_source_axes(box.begin, view.axes), on_source_axes(box.size, view.axes)},
              std::move(room),
              nullptr};
  block.window = window_on(view, block.source_box);
  if (block.window) {
    block.room = {};  // one block's memory, not two
    return block;
  }
  const uint64_t bytes = element_count(box) * size_of(view.tensor->dtype);
  if (block.room.size < bytes) {
    block.room = {};  // first, so that there are never two
    block.room = {bytes, big_buffer(bytes)};
  }
  return block;
}

Status ViewReader::read_band(Block& block, const Box& band) {
  const uint64_t row = element_count(band) / band.size[0] * size_of(block.view->tensor->dtype);
  const uint64_t first = (band.begin[0] - block.source_box.begin[0]) * row, bytes = band.size[0] * row;
  if (block.window) return block.window->load(first, bytes);
  return read_source_box(*block.view, band, std::span(block.room.bytes.get() + first, bytes));
}

Result<CastCounts> ViewReader::convert_box(const View& view, const ConvertRun& convert, const Block& block,
                                           const Box& box, std::span<std::byte> out) {
  // Everything below is on the source's axes. `along` is contiguous in the source, `across` in the view.
  const size_t rank = view.axes.size(), along = rank - 1, across = view.axes.back();
  const size_t from = size_of(view.tensor->dtype), to = size_of(view.dtype);
  const Shape size = on_source_axes(box.size, view.axes), begin = on_source_axes(box.begin, view.axes);
  const Shape flat = strides_of(view.source_shape);
  const Shape in_block = strides_of(block.source_box.size);
  const Shape in_out = on_source_axes(strides_of(box.size), view.axes);
  const uint64_t block_start = dot(block.source_box.begin, in_block);
  const bool turned = across != along;

  std::optional<Tile> tile;
  if (turned) tile.emplace(from, to, convert);
  CastCounts counts;
  Shape step(rank, 1);  // of the walk over runs or tiles
  step[along] = turned ? tile->columns() : size[along];
  if (turned) step[across] = tile->rows();
  Shape at(rank, 0);
  while (true) {
    const uint64_t source = dot(begin, in_block) + dot(at, in_block) - block_start;
    const uint64_t first = dot(begin, flat) + dot(at, flat);
    const uint64_t columns = std::min(step[along], size[along] - at[along]);
    const std::byte* const in = block.data() + source * from;
    std::byte* const made = out.data() + dot(at, in_out) * to;
    if (turned) {
      const uint64_t left = size[across] - at[across], rows = std::min(step[across], left);
      TANDEM_TRY(const CastCounts more, tile->turn({in, in_block[across], first, flat[across], left - rows},
                                                   made, in_out[along], rows, columns));
      counts += more;
    } else {
      TANDEM_TRY(const CastCounts more,
                 convert_or_copy(convert, first, {in, columns * from}, {made, columns * to}));
      counts += more;
    }
    size_t axis = rank;
    while (axis > 0 && (at[axis - 1] += step[axis - 1]) >= size[axis - 1]) at[--axis] = 0;
    if (axis == 0) return counts;
  }
}

}  // namespace tandem
