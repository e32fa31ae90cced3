#include "verify/weights_level.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <mutex>
#include <thread>

namespace tandem {
namespace {

// Both sides' pieces of float32 stay in a second level cache between their reading and their comparison.
constexpr uint64_t kPieceElements = 1 << 17;

/// One tensor's piece on one side, and room for it in another dtype; used again for the next.
struct Piece {
  DType dtype = DType::f32;
  std::vector<std::byte> bytes, converted;
};

/// The piece in another dtype, in its own room.
Result<std::span<const std::byte>> converted(Piece& piece, DType dtype) {
  piece.converted.resize(piece.bytes.size() / size_of(piece.dtype) * size_of(dtype));
  TANDEM_CHECK(cast(piece.dtype, piece.bytes, dtype, piece.converted));
  return std::span<const std::byte>(piece.converted);
}

/// How two pieces of one tensor differ.
struct Difference {
  std::optional<uint64_t>
      first;  ///< the first element that is not equal once the wider side is rounded to the narrower
  bool rounded = false;  ///< rounding changed a value
};

std::optional<uint64_t> first_unequal(std::span<const std::byte> a, std::span<const std::byte> b,
                                      size_t size) {
  if (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0) return {};
  for (size_t i = 0;; i += size)
    if (std::memcmp(a.data() + i, b.data() + i, size) != 0) return i / size;
}

/// Is `made` what `from` becomes in its dtype?
Result<Difference> from_cast(Piece& from, Piece& made) {
  TANDEM_TRY(const std::span<const std::byte> expected, converted(from, made.dtype));
  TANDEM_TRY(const std::span<const std::byte> returned, converted(made, from.dtype));
  return Difference{first_unequal(made.bytes, expected, size_of(made.dtype)),
                    first_unequal(returned, from.bytes, size_of(from.dtype)).has_value()};
}

Result<Difference> difference(Piece& left, Piece& right) {
  if (left.dtype == right.dtype)
    return Difference{first_unequal(left.bytes, right.bytes, size_of(left.dtype)), false};
  if (size_of(left.dtype) != size_of(right.dtype))
    return size_of(left.dtype) > size_of(right.dtype) ? from_cast(left, right) : from_cast(right, left);
  // Neither bfloat16 nor float16 holds the other: either may have been made from the other.
  TANDEM_TRY(const Difference forward, from_cast(left, right));
  TANDEM_TRY(const Difference backward, from_cast(right, left));
  return forward.first && !backward.first ? backward : forward;
}

/// A tensor on both sides, of one shape: what has been found in it so far.
struct Pair {
  const TensorInfo* left;
  const TensorInfo* right;
  uint64_t count;        ///< elements
  uint64_t first_piece;  ///< its pieces' numbers begin here
  Difference found = {};
};

/// All pairs' pieces, each compared by whichever thread is free. Sources are read from several at once.
class PieceComparison {
 public:
  PieceComparison(const TensorSource& left, const TensorSource& right, std::vector<Pair>& pairs,
                  uint64_t pieces, const std::function<Status(uint64_t)>& progress)
      : left_(left), right_(right), pairs_(pairs), pieces_(pieces), progress_(progress) {}

  Status run(uint64_t threads) {
    std::vector<std::thread> others;
    for (uint64_t i = 1; i < std::min(threads, pieces_); ++i) others.emplace_back([this] { work(); });
    work();
    for (std::thread& other : others) other.join();
    return std::move(failure_);
  }
  const OddValues& left_odd() const { return left_odd_; }
  const OddValues& right_odd() const { return right_odd_; }

 private:
  void work() {
    Piece left, right;
    for (uint64_t piece; (piece = next_++) < pieces_;)
      if (Status status = compare(piece, left, right); !status.ok()) fail(piece, std::move(status));
  }

  /// No piece is begun any more. Of several failures the one that a single thread would have met is told.
  void fail(uint64_t piece, Status status) {
    next_ = pieces_;
    const std::lock_guard lock(mutex_);
    if (piece >= failed_piece_) return;
    failed_piece_ = piece;
    failure_ = std::move(status);
  }

  Status compare(uint64_t number, Piece& left, Piece& right) {
    Pair& pair = *std::prev(std::upper_bound(
        pairs_.begin(), pairs_.end(), number,
        [](uint64_t wanted, const Pair& candidate) { return wanted < candidate.first_piece; }));
    const uint64_t at = (number - pair.first_piece) * kPieceElements;
    const uint64_t elements = std::min(kPieceElements, pair.count - at);
    TANDEM_CHECK(read(left_, *pair.left, at, elements, left));
    TANDEM_CHECK(read(right_, *pair.right, at, elements, right));
    TANDEM_TRY(const Difference here, difference(left, right));
    const OddValues left_odd = odd_values(left.dtype, left.bytes);
    const bool same_bits = left.dtype == right.dtype && !here.first;
    const OddValues right_odd = same_bits ? left_odd : odd_values(right.dtype, right.bytes);

    const std::lock_guard lock(mutex_);
    left_odd_ += left_odd;
    right_odd_ += right_odd;
    pair.found.rounded |= here.rounded;
    if (here.first) pair.found.first = std::min(pair.found.first.value_or(pair.count), at + *here.first);
    done_ += left.bytes.size() + right.bytes.size();
    return progress_ ? progress_(done_) : Status();
  }

  static Status read(const TensorSource& source, const TensorInfo& info, uint64_t at, uint64_t elements,
                     Piece& piece) {
    piece.dtype = info.dtype;
    piece.bytes.resize(elements * size_of(info.dtype));
    return source.read(info.name, at * size_of(info.dtype), piece.bytes);
  }

  const TensorSource& left_;
  const TensorSource& right_;
  std::vector<Pair>& pairs_;
  const uint64_t pieces_;
  const std::function<Status(uint64_t)>& progress_;
  std::atomic<uint64_t> next_ = 0;
  std::mutex mutex_;  ///< of all below, and of what is found in pairs
  OddValues left_odd_, right_odd_;
  uint64_t done_ = 0;
  uint64_t failed_piece_ = std::numeric_limits<uint64_t>::max();
  Status failure_;
};

/// Two, as a disk has use for no more, and a comparison in memory little.
constexpr uint64_t kThreads = 2;

void note_rounding(const Pair& pair, WeightsLevel& level) {
  const DType left = pair.left->dtype, right = pair.right->dtype;
  const DType narrow = size_of(left) < size_of(right) ? left : right;
  // Of the two-byte types bf16 has the fewest digits.
  if (!level.narrowest || narrow == DType::bf16) level.narrowest = narrow;
  ++level.rounded;
}

void note(const Pair& pair, WeightsLevel& level) {
  level.values += pair.count;
  if (pair.found.first) {
    level.different.push_back(fmt::format("{} ({} and {}): differs first at element {} of {}",
                                          pair.left->name, row(pair.left->dtype).long_name,
                                          row(pair.right->dtype).long_name, *pair.found.first, pair.count));
    return;
  }
  ++level.equal;
  if (pair.found.rounded) note_rounding(pair, level);
}

Json to_json(const OddValues& odd) {
  return Json{{"nan", odd.nan}, {"infinite", odd.infinite}, {"denormal", odd.denormal}};
}

}  // namespace

Json to_json(const WeightsLevel& level) {
  return Json{{"equal", level.passed()},
              {"says", "consistent with the rules"},
              {"compared", level.compared},
              {"equal_tensors", level.equal},
              {"rounded", level.rounded},
              {"different", level.different.size()},
              {"missing", level.missing.size()},
              {"values", level.values},
              {"differences", level.different},
              {"on_one_side", level.missing},
              {"left_odd_values", to_json(level.left_odd)},
              {"right_odd_values", to_json(level.right_odd)}};
}

Result<WeightsLevel> compare_weights(const TensorSource& left, const TensorSource& right,
                                     const std::function<Status(uint64_t)>& progress) {
  WeightsLevel level;
  std::vector<Pair> pairs;
  uint64_t pieces = 0;
  for (const TensorInfo& info : left.tensors()) {
    const TensorInfo* other = right.find(info.name);
    if (!other) {
      level.missing.push_back(info.name + ": on the left only");
      continue;
    }
    ++level.compared;
    if (info.shape != other->shape) {
      level.different.push_back(
          fmt::format("{}: shape {} and {}", info.name, to_string(info.shape), to_string(other->shape)));
      continue;
    }
    TANDEM_TRY(const uint64_t count, element_count(info.shape));
    pairs.push_back({&info, other, count, pieces});
    pieces += (count + kPieceElements - 1) / kPieceElements;
  }
  for (const TensorInfo& info : right.tensors())
    if (!left.find(info.name)) level.missing.push_back(info.name + ": on the right only");

  PieceComparison comparison(left, right, pairs, pieces, progress);
  TANDEM_CHECK(comparison.run(kThreads));
  level.left_odd = comparison.left_odd();
  level.right_odd = comparison.right_odd();
  for (const Pair& pair : pairs) note(pair, level);
  return level;
}

}  // namespace tandem
