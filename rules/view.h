#pragma once
// A source tensor seen with its axes permuted and its elements converted, read piece by piece. For the rest
// of this folder.

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

#include "rules/convert_run.h"

namespace tandem {

struct View {
  const TensorSource* source;
  const TensorInfo* tensor;
  std::optional<uint64_t> slot;  ///< the place along the tensor's first axis that is meant, if it is a stack
  Shape source_shape;            ///< without the axis of slots
  std::vector<uint64_t> axes;    ///< axis i of the view is axis axes[i] of the source
  DType dtype;                   ///< of the view

  Shape shape() const;
  /// True if the elements lie in the source in the view's own order.
  bool in_order() const;
  /// Bytes of the source, as they lie there, from its element `first` on.
  Status read_source(uint64_t first, std::span<std::byte> out) const;
  /// The same bytes where they lie, or nullptr.
  std::unique_ptr<FileWindow> window_on_source(uint64_t first, uint64_t size) const;
};

/// The largest box of `shape` that begins at element `first`, whose elements are the next ones in row-major
/// order, at most `count` of them. A range of elements is a few such boxes: a rest of a row, whole rows, the
/// beginning of a row.
Box next_box(const Shape& shape, uint64_t first, uint64_t count);

/// Reads views in bounded memory. A transposed view is read in blocks of whole rows of the view (columns of
/// the source), and the last block is kept, since a writer asks for one slab after the other. Threads may
/// share a reader.
class ViewReader {
 public:
  explicit ViewReader(uint64_t memory);
  ~ViewReader();
  /// Elements of the view from `first` on, as many as out has room for. The view must stay where it is.
  Result<CastCounts> read(const View& view, const ConvertRun& convert, uint64_t first,
                          std::span<std::byte> out) const;
  /// Gives up what is kept from one read to the next: memory, and a window on a file. Not while one reads.
  void release() const;

 private:
  struct Room;
  struct Block;
  Result<CastCounts> read_in_order(const View& view, const ConvertRun& convert, uint64_t first,
                                   std::span<std::byte> out) const;
  /// `use` on the block of these rows of the view, which stays as it is meanwhile.
  Status with_row_block(const View& view, uint64_t first_row, uint64_t rows,
                        const std::function<Status(const Block&)>& use) const;
  static Block empty_block(const View& view, const Box& box, Room room);
  static Status read_band(Block& block, const Box& band);
  static Result<CastCounts> convert_box(const View& view, const ConvertRun& convert, const Block& block,
                                        const Box& box, std::span<std::byte> out);

  uint64_t memory_, small_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable size_t users_ = 0;  // threads that read into last_ or from it
  mutable std::unique_ptr<Block> last_;
};

}  // namespace tandem
