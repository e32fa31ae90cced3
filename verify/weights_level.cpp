#include "verify/weights_level.h"

#include <cmath>
#include <cstring>
#include <set>

namespace tandem {
namespace {

constexpr uint64_t kPieceElements = 1 << 20;

/// One tensor's piece on one side.
struct Piece {
  DType dtype;
  std::vector<std::byte> bytes;
};

Result<std::vector<std::byte>> converted(const Piece& piece, DType dtype) {
  std::vector<std::byte> out(piece.bytes.size() / size_of(piece.dtype) * size_of(dtype));
  TANDEM_CHECK(cast(piece.dtype, piece.bytes, dtype, out));
  return out;
}

/// How two pieces of one tensor differ.
struct Difference {
  std::optional<uint64_t>
      first;  ///< the first element that is not equal once the wider side is rounded to the narrower
  bool rounded = false;  ///< rounding changed a value
};

std::optional<uint64_t> first_unequal(std::span<const std::byte> a, std::span<const std::byte> b,
                                      size_t size) {
  if (std::equal(a.begin(), a.end(), b.begin(), b.end())) return {};
  for (size_t i = 0;; i += size)
    if (std::memcmp(a.data() + i, b.data() + i, size) != 0) return i / size;
}

/// Is `made` what `from` becomes in its dtype?
Result<Difference> from_cast(const Piece& from, const Piece& made) {
  TANDEM_TRY(const std::vector<std::byte> expected, converted(from, made.dtype));
  TANDEM_TRY(const std::vector<std::byte> returned, converted(made, from.dtype));
  return Difference{first_unequal(made.bytes, expected, size_of(made.dtype)), returned != from.bytes};
}

Result<Difference> difference(const Piece& left, const Piece& right) {
  if (left.dtype == right.dtype)
    return Difference{first_unequal(left.bytes, right.bytes, size_of(left.dtype)), false};
  if (size_of(left.dtype) != size_of(right.dtype))
    return size_of(left.dtype) > size_of(right.dtype) ? from_cast(left, right) : from_cast(right, left);
  // Neither bfloat16 nor float16 holds the other: either may have been made from the other.
  TANDEM_TRY(const Difference forward, from_cast(left, right));
  TANDEM_TRY(const Difference backward, from_cast(right, left));
  return forward.first && !backward.first ? backward : forward;
}

void count_odd(std::span<const float> values, OddValues& odd) {
  for (const float value : values) {
    const int kind = std::fpclassify(value);
    odd.nan += kind == FP_NAN;
    odd.infinite += kind == FP_INFINITE;
  }
}

/// Denormal in the tensor's own type: not zero, and below its smallest normal number.
bool is_denormal(DType dtype, float value) {
  const float smallest = dtype == DType::f16 ? 0x1p-14f : 0x1p-126f;
  return value != 0 && std::abs(value) < smallest;
}

Status count_odd(const Piece& piece, OddValues& odd) {
  if (!is_float(piece.dtype)) return {};
  TANDEM_TRY(const std::vector<std::byte> bytes, converted(piece, DType::f32));
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  count_odd(values, odd);
  for (const float value : values) odd.denormal += is_denormal(piece.dtype, value);
  return {};
}

class Comparison {
 public:
  Comparison(const TensorSource& left, const TensorSource& right,
             const std::function<Status(uint64_t)>& progress)
      : left_(left), right_(right), progress_(progress) {}

  Result<WeightsLevel> run() && {
    for (const TensorInfo& info : left_.tensors()) {
      const TensorInfo* other = right_.find(info.name);
      if (!other) {
        level_.missing.push_back(info.name + ": on the left only");
        continue;
      }
      TANDEM_CHECK(compare(info, *other));
    }
    for (const TensorInfo& info : right_.tensors())
      if (!left_.find(info.name)) level_.missing.push_back(info.name + ": on the right only");
    return std::move(level_);
  }

 private:
  Status compare(const TensorInfo& left, const TensorInfo& right) {
    ++level_.compared;
    if (left.shape != right.shape) {
      level_.different.push_back(
          fmt::format("{}: shape {} and {}", left.name, to_string(left.shape), to_string(right.shape)));
      return {};
    }
    TANDEM_TRY(const uint64_t count, element_count(left.shape));
    TANDEM_TRY(const Difference found, difference_of(left, right, count));
    level_.values += count;
    if (found.first) {
      level_.different.push_back(fmt::format("{} ({} and {}): differs first at element {} of {}", left.name,
                                             row(left.dtype).long_name, row(right.dtype).long_name,
                                             *found.first, count));
      return {};
    }
    ++level_.equal;
    level_.rounded += found.rounded;
    if (found.rounded) note_rounding(left.dtype, right.dtype);
    return {};
  }

  /// Reads both tensors to the end, so that odd values are counted everywhere.
  Result<Difference> difference_of(const TensorInfo& left, const TensorInfo& right, uint64_t count) {
    Difference all;
    for (uint64_t at = 0; at < count; at += kPieceElements) {
      const uint64_t elements = std::min(kPieceElements, count - at);
      TANDEM_TRY(const Piece a, read(left_, left, at, elements));
      TANDEM_TRY(const Piece b, read(right_, right, at, elements));
      TANDEM_CHECK(count_odd(a, level_.left_odd));
      TANDEM_CHECK(count_odd(b, level_.right_odd));
      TANDEM_TRY(const Difference here, difference(a, b));
      all.rounded |= here.rounded;
      if (!all.first && here.first) all.first = at + *here.first;
    }
    return all;
  }

  Result<Piece> read(const TensorSource& source, const TensorInfo& info, uint64_t at, uint64_t elements) {
    Piece piece{info.dtype, std::vector<std::byte>(elements * size_of(info.dtype))};
    TANDEM_CHECK(source.read(info.name, at * size_of(info.dtype), piece.bytes));
    done_ += piece.bytes.size();
    if (progress_) {
      TANDEM_CHECK(progress_(done_));
    }
    return piece;
  }

  void note_rounding(DType left, DType right) {
    const DType narrow = size_of(left) < size_of(right) ? left : right;
    // Of the two-byte types bf16 has the fewest digits.
    if (!level_.narrowest || narrow == DType::bf16) level_.narrowest = narrow;
  }

  const TensorSource& left_;
  const TensorSource& right_;
  const std::function<Status(uint64_t)>& progress_;
  WeightsLevel level_;
  uint64_t done_ = 0;
};

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
  return Comparison(left, right, progress).run();
}

}  // namespace tandem
