#include "base/piece_file.h"

#include <algorithm>

#include "base/hash.h"
#include "base/pieces.h"

namespace tandem {
namespace {

constexpr size_t kSumPiece = 256 << 10;  // read and summed while it is in a cache

/// Of a piece of rows of `row` bytes.
uint64_t piece_bytes(uint64_t row) {
  if (row == 0 || row > PieceFile::kPieceBytes) return PieceFile::kPieceBytes;
  const uint64_t rows = PieceFile::kPieceBytes / row;
  for (const uint64_t unit : {PieceFile::kLineRows, PieceFile::kSquareRows})
    if (rows >= unit) return row * (rows / unit * unit);
  return row * rows;
}

}  // namespace

class PieceFile::Work {
 public:
  Work(std::unique_ptr<WritableFile> file, const PieceOptions& options)
      : file_(std::move(file)), pipeline_(steps(options), options.threads, options.sums) {}

  Status append(uint64_t size, const Fill& fill, uint64_t row) {
    TANDEM_CHECK(pipeline_.append(bytes_, size, piece_bytes(row), parts_, fill));
    bytes_ += size;
    ++parts_;
    return {};
  }

  uint64_t bytes() const { return bytes_; }
  const std::vector<uint32_t>& crcs() const { return crcs_; }

  Result<FileSums> close() {
    TANDEM_CHECK(pipeline_.drain());
    TANDEM_CHECK(pipeline_.fail(file_->close()));
    if (sha256_) sums_.sha256 = sha256_->finish();
    sums_.bytes = bytes_;
    crcs_.resize(parts_);  // the last may have been of nothing
    return sums_;
  }

 private:
  std::vector<Pipeline::Step> steps(const PieceOptions& options) {
    std::vector<Pipeline::Step> steps;
    steps.push_back([this](Piece& piece) {
      if (piece.crcs) add(piece);
      return file_->append(piece.bytes());
    });
    if (!options.sha256) return steps;
    sha256_.emplace();
    steps.push_back([this](Piece& piece) {
      sha256_->update(piece.bytes());
      return Status{};
    });
    return steps;
  }

  void add(const Piece& piece) {
    crcs_.resize(std::max(crcs_.size(), piece.part + 1));
    uint32_t& crc = crcs_[piece.part];
    crc = crc32c_combine(crc, add_crc(sums_, piece), piece.size);
  }

  std::unique_ptr<WritableFile> file_;
  std::optional<Sha256TreeHash> sha256_;
  uint64_t bytes_ = 0;  // appended
  size_t parts_ = 0;    // calls of append
  FileSums sums_;       // these two belong to the step that writes
  std::vector<uint32_t> crcs_;
  Pipeline pipeline_;  // last: its threads use the others
};

PieceFile::PieceFile(std::unique_ptr<WritableFile> file, PieceOptions options)
    : work_(std::make_unique<Work>(std::move(file), options)) {}
PieceFile::~PieceFile() = default;

Status PieceFile::append(uint64_t size, const Fill& fill, uint64_t row) {
  return work_->append(size, fill, row);
}

Status PieceFile::append(std::span<const std::byte> bytes) {
  return append(bytes.size(), [&](uint64_t offset, std::span<std::byte> out) {
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
    return Status{};
  });
}

uint64_t PieceFile::bytes() const { return work_->bytes(); }
Result<FileSums> PieceFile::close() { return work_->close(); }
const std::vector<uint32_t>& PieceFile::crcs() const { return work_->crcs(); }

Result<std::vector<uint32_t>> crcs_of(const ReadableFile& file, std::span<const uint64_t> ends,
                                      unsigned threads,
                                      const std::function<Status(uint64_t bytes)>& on_bytes) {
  std::vector<uint32_t> crcs(ends.size());
  std::mutex mutex;
  size_t next = 0;
  std::optional<Error> error;
  const auto take = [&](const Status& before) -> std::optional<size_t> {
    const std::lock_guard lock(mutex);
    if (!before && !error) error = before.error();
    return error || next == ends.size() ? std::nullopt : std::optional(next++);
  };
  const auto sum = [&](size_t index, std::span<std::byte> room) -> Status {
    for (uint64_t at = index == 0 ? 0 : ends[index - 1]; at < ends[index];) {
      const auto out = room.first(std::min<uint64_t>(room.size(), ends[index] - at));
      TANDEM_CHECK(file.read(at, out));
      crcs[index] = crc32c(crcs[index], out);
      at += out.size();
      if (!on_bytes) continue;
      const std::lock_guard lock(mutex);
      TANDEM_CHECK(on_bytes(out.size()));
    }
    return {};
  };
  const auto work = [&] {
    const auto room = std::make_unique_for_overwrite<std::byte[]>(kSumPiece);
    Status status;
    while (const auto index = take(status)) status = sum(*index, {room.get(), kSumPiece});
  };
  std::vector<std::thread> helpers;
  for (unsigned i = 1; i < threads; ++i) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();
  if (error) return std::move(*error);
  return crcs;
}

Result<FileSums> sums_of(const ReadableFile& file, const PieceOptions& options,
                         const std::function<Status(uint64_t bytes)>& on_bytes) {
  PieceFile sums(std::make_unique<NullFile>(), options);
  std::mutex mutex;
  TANDEM_CHECK(sums.append(file.size(), [&](uint64_t offset, std::span<std::byte> out) -> Status {
    TANDEM_CHECK(file.read(offset, out));
    const std::lock_guard lock(mutex);
    return on_bytes ? on_bytes(out.size()) : Status{};
  }));
  return sums.close();
}

}  // namespace tandem
