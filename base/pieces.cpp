#include "base/pieces.h"

#include <algorithm>
#include <system_error>

#include "base/contained.h"
#include "base/hash.h"

namespace tandem {

static_assert(PieceFile::kPieceBytes <= kSumBlock);

std::array<std::span<const std::byte>, 2> Piece::stretches() const {
  const std::span<const std::byte> all(room, size);
  const auto first = all.first(std::min<uint64_t>(size, kSumBlock - at % kSumBlock));
  return {first, all.subspan(first.size())};
}

void sum(Piece& piece) {
  const auto [first, second] = piece.stretches();
  piece.crcs = {crc32c(0, first), crc32c(0, second)};
}

uint32_t add_crc(FileSums& sums, const Piece& piece) {
  uint32_t whole = 0;
  const auto stretches = piece.stretches();
  for (size_t i = 0; i < stretches.size() && !stretches[i].empty(); ++i) {
    if (sums.bytes % kSumBlock == 0) sums.blocks.push_back(0);
    for (uint32_t* sum : {&whole, &sums.blocks.back(), &sums.crc32c})
      *sum = crc32c_combine(*sum, (*piece.crcs)[i], stretches[i].size());
    sums.bytes += stretches[i].size();
  }
  return whole;
}

Pipeline::Pipeline(std::vector<Step> steps, unsigned threads, bool sums) : sums_(sums) {
  for (size_t i = pieces_.size(); i-- > 0;) {
    pieces_[i].room = room_.get() + i * PieceFile::kPieceBytes;
    free_.push_back(&pieces_[i]);
  }
  for (Step& step : steps) steps_.push_back({std::move(step)});
  try {
    for (unsigned i = 1; i < std::min<unsigned>(threads, PieceFile::kPieces); ++i)
      helpers_.emplace_back([this] { help(); });
  } catch (const std::system_error&) {  // the system gives no more threads: those that are there do
  }
}

Pipeline::~Pipeline() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

Status Pipeline::append(uint64_t at, uint64_t size, uint64_t most, size_t part, const PieceFile::Fill& fill) {
  Job job{at, size, most, part, fill};
  Lock lock(mutex_);
  job_ = &job;
  changed_.notify_all();
  while (job.making > 0 || (job.next < size && !error_))
    if (!act(lock)) changed_.wait(lock);
  job_ = nullptr;
  return status();
}

Status Pipeline::drain() {
  Lock lock(mutex_);
  while (!window_.empty())
    if (!act(lock)) changed_.wait(lock);
  return status();
}

Status Pipeline::fail(Status status) {
  const std::lock_guard lock(mutex_);
  if (!error_ && !status.ok()) error_ = std::move(status).error();
  return this->status();
}

void Pipeline::help() {
  Lock lock(mutex_);
  while (!stop_)
    if (!act(lock)) changed_.wait(lock);
}

bool Pipeline::act(Lock& lock) {
  for (Ordered& ordered : steps_)
    if (handle(ordered, lock)) return true;
  return make(lock);
}

bool Pipeline::handle(Ordered& ordered, Lock& lock) {
  if (ordered.busy || ordered.next == first_ + window_.size()) return false;
  Piece& piece = *window_[ordered.next - first_];
  if (!piece.made) return false;
  ordered.busy = true;
  if (!error_) {  // after an error pieces are passed on as they are, so that nobody waits
    lock.unlock();
    Status done = contained([&] { return ordered.step(piece); });
    lock.lock();
    if (!done && !error_) error_ = std::move(done).error();
  }
  ordered.busy = false;
  ++ordered.next;
  const auto passed = [&](const Ordered& step) { return step.next > first_; };
  while (!window_.empty() && std::ranges::all_of(steps_, passed)) {
    free_.push_back(window_.front());
    window_.pop_front();
    ++first_;
  }
  changed_.notify_all();
  return true;
}

bool Pipeline::make(Lock& lock) {
  if (!job_ || job_->next == job_->size || error_ || free_.empty()) return false;
  Job& job = *job_;
  Piece& piece = *free_.back();
  free_.pop_back();
  window_.push_back(&piece);
  const uint64_t offset = job.next;
  piece.size = std::min(job.size - offset, job.most);
  piece.at = job.at + offset;
  piece.part = job.part;
  piece.made = false;
  job.next += piece.size;
  ++job.making;
  lock.unlock();
  Status made = contained([&] { return job.fill(offset, {piece.room, piece.size}); });
  if (made.ok() && sums_) sum(piece);  // while it is in a cache
  lock.lock();
  if (!made && !error_) error_ = std::move(made).error();
  piece.made = true;
  --job.making;
  changed_.notify_all();
  return true;
}

}  // namespace tandem
