#include "base/piece_file.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include "base/hash.h"

namespace tandem {
namespace {

constexpr size_t kSumPiece = 256 << 10;  // read and summed while it is in a cache

/// A stretch of the file. `room` is kept when it is used again.
struct Piece {
  std::unique_ptr<std::byte[]> room = std::make_unique_for_overwrite<std::byte[]>(PieceFile::kPieceBytes);
  size_t size = 0;
  size_t part = 0;  // the call of append that it belongs to
  std::span<const std::byte> bytes() const { return {room.get(), size}; }
};

/// Adds bytes to sums that end where they begin; the CRC-32C of the bytes alone.
uint32_t add_crc(FileSums& sums, std::span<const std::byte> bytes) {
  uint32_t whole = 0;
  while (!bytes.empty()) {
    const uint64_t in_block = sums.bytes % kSumBlock;
    if (in_block == 0) sums.blocks.push_back(0);
    const auto part = bytes.first(std::min<uint64_t>(bytes.size(), kSumBlock - in_block));
    const uint32_t crc = crc32c(0, part);
    for (uint32_t* sum : {&whole, &sums.blocks.back(), &sums.crc32c})
      *sum = crc32c_combine(*sum, crc, part.size());
    sums.bytes += part.size();
    bytes = bytes.subspan(part.size());
  }
  return whole;
}

/// Handles pieces one after the other on a thread of its own.
class Stage {
 public:
  explicit Stage(std::function<Status(const Piece&)> handle)
      : handle_(std::move(handle)), thread_([this] { work(); }) {}
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  ~Stage() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void put(std::shared_ptr<const Piece> piece) {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(piece));
    }
    changed_.notify_all();
  }
  /// The first error so far.
  Status status() const {
    const std::lock_guard lock(mutex_);
    return error_ ? Status(*error_) : Status{};
  }
  /// The same when all pieces are handled.
  Status drain() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return queue_.empty(); });
    return error_ ? Status(*error_) : Status{};
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
      if (stop_) return;
      if (!error_) {
        lock.unlock();
        Status done = handle_(*queue_.front());  // nobody else takes from the front
        lock.lock();
        if (!done) error_ = std::move(done).error();
      }
      queue_.pop_front();
      changed_.notify_all();
    }
  }

  std::function<Status(const Piece&)> handle_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<const Piece>> queue_;
  std::optional<Error> error_;
  bool stop_ = false;
  std::thread thread_;  // last: it uses the others
};

/// Pieces that nobody uses.
class Pool {
 public:
  /// Waits until one is free. Its last user gives it back.
  std::shared_ptr<Piece> take() {
    std::unique_lock lock(mutex_);
    if (free_.empty() && made_ < PieceFile::kPieces) {
      free_.push_back(std::make_unique<Piece>());
      ++made_;
    }
    changed_.wait(lock, [this] { return !free_.empty(); });
    std::unique_ptr<Piece> piece = std::move(free_.back());
    free_.pop_back();
    return {piece.release(), [this](Piece* used) { give_back(used); }};
  }

 private:
  void give_back(Piece* used) {
    {
      const std::lock_guard lock(mutex_);
      free_.emplace_back(used);
    }
    changed_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Piece>> free_;  // the last used first: still in a cache
  size_t made_ = 0;
};

}  // namespace

class PieceFile::Work {
 public:
  Work(std::unique_ptr<WritableFile> file, PieceOptions options) : file_(std::move(file)) {
    steps_.push_back([this, sums = options.sums](const Piece& piece) {
      if (sums) add(piece);
      return file_->append(piece.bytes());
    });
    if (options.sha256) {
      sha256_.emplace();
      steps_.push_back([this](const Piece& piece) {
        sha256_->update(piece.bytes());
        return Status{};
      });
    }
    if (options.beside)
      for (auto& step : steps_) stages_.push_back(std::make_unique<Stage>(step));
  }

  Status append(uint64_t size, const Fill& fill, uint64_t grain) {
    const uint64_t most = grain > 0 && grain <= kPieceBytes ? kPieceBytes / grain * grain : kPieceBytes;
    for (uint64_t done = 0; done < size;) {
      TANDEM_CHECK(status());
      const std::shared_ptr<Piece> piece = pool_.take();
      piece->size = std::min(size - done, most);
      piece->part = parts_;
      TANDEM_CHECK(
          kept(fill(done, {piece->room.get(), piece->size})));  // a file with a hole must not be closed
      done += piece->size;
      bytes_ += piece->size;
      TANDEM_CHECK(pass_on(piece));
    }
    ++parts_;
    return {};
  }

  uint64_t bytes() const { return bytes_; }
  const std::vector<uint32_t>& crcs() const { return crcs_; }

  Result<FileSums> close() {
    for (auto& stage : stages_) TANDEM_CHECK(stage->drain());
    TANDEM_CHECK(status());
    TANDEM_CHECK(kept(file_->close()));
    if (sha256_) sums_.sha256 = sha256_->hex();
    sums_.bytes = bytes_;
    crcs_.resize(parts_);  // the last may have been of nothing
    return sums_;
  }

 private:
  void add(const Piece& piece) {
    crcs_.resize(std::max(crcs_.size(), piece.part + 1));
    uint32_t& crc = crcs_[piece.part];
    crc = crc32c_combine(crc, add_crc(sums_, piece.bytes()), piece.size);
  }

  Status pass_on(const std::shared_ptr<Piece>& piece) {
    for (auto& stage : stages_) stage->put(piece);
    if (!stages_.empty()) return {};
    for (auto& step : steps_) TANDEM_CHECK(kept(step(*piece)));
    return {};
  }

  Status status() const {
    for (const auto& stage : stages_) TANDEM_CHECK(stage->status());
    return error_ ? Status(*error_) : Status{};
  }

  Status kept(Status done) {
    if (!done && !error_) error_ = done.error();
    return done;
  }

  std::unique_ptr<WritableFile> file_;
  std::optional<Sha256> sha256_;
  uint64_t bytes_ = 0;  // appended
  size_t parts_ = 0;    // calls of append
  FileSums sums_;       // these two belong to the step that writes
  std::vector<uint32_t> crcs_;
  std::optional<Error> error_;  // of calls on the caller's own thread
  Pool pool_;                   // before the stages, which give pieces back to it
  std::vector<std::function<Status(const Piece&)>> steps_;
  std::vector<std::unique_ptr<Stage>> stages_;
};

PieceFile::PieceFile(std::unique_ptr<WritableFile> file, PieceOptions options)
    : work_(std::make_unique<Work>(std::move(file), options)) {}
PieceFile::~PieceFile() = default;

Status PieceFile::append(uint64_t size, const Fill& fill, uint64_t grain) {
  return work_->append(size, fill, grain);
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
  TANDEM_CHECK(sums.append(file.size(), [&](uint64_t offset, std::span<std::byte> out) -> Status {
    TANDEM_CHECK(file.read(offset, out));
    return on_bytes ? on_bytes(out.size()) : Status{};
  }));
  return sums.close();
}

}  // namespace tandem
