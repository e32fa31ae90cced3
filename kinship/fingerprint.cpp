#include "kinship/fingerprint.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tandem::kinship {
namespace {

constexpr uint64_t kPieceElements = 1 << 18;  // of a read; a few buffers of them fit in a cache

/// The finalizer of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
inline uint64_t mixed(uint64_t bits) {
  bits += 0x9e3779b97f4a7c15;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return bits ^ (bits >> 31);
}

template <class T>
inline uint64_t hash_at(const std::byte* bytes, uint64_t index) {
  T bits;
  std::memcpy(&bits, bytes + index * sizeof(T), sizeof(T));
  return mixed(bits);
}

template <class T>
uint64_t sum_of(const std::byte* bytes, uint64_t count) {
  uint64_t even = 0, odd = 0;
  uint64_t i = 0;
  for (; i + 1 < count; i += 2) {
    even += hash_at<T>(bytes, i);
    odd += hash_at<T>(bytes, i + 1);
  }
  return even + odd + (i < count ? hash_at<T>(bytes, i) : 0);
}

/// Calls a function with an unsigned integer of `size` bytes.
template <class Call>
auto with_bits(size_t size, const Call& call) {
  switch (size) {
    case 1:
      return call(uint8_t{});
    case 2:
      return call(uint16_t{});
    case 4:
      return call(uint32_t{});
    default:
      return call(uint64_t{});
  }
}

uint64_t sum_of(size_t size, const std::byte* bytes, uint64_t count) {
  return with_bits(size, [&](auto bits) { return sum_of<decltype(bits)>(bytes, count); });
}

/// Adds the hashes of one row to the sums of its columns, and returns their sum.
uint64_t add_row(size_t size, const std::byte* bytes, std::span<uint64_t> columns) {
  return with_bits(size, [&](auto bits) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < columns.size(); ++i) {
      const uint64_t hash = hash_at<decltype(bits)>(bytes, i);
      columns[i] += hash;
      sum += hash;
    }
    return sum;
  });
}

/// Reads elements [first, first + count) in pieces, each handed to visit as (first, bytes).
template <class Visit>
Status for_each_piece(const Checkpoint& checkpoint, const Weight& weight, uint64_t first, uint64_t count,
                      uint64_t piece_elements, const Progress& progress, const Visit& visit) {
  const size_t size = size_of(weight.info->dtype);
  std::vector<std::byte> bytes(std::min(count, piece_elements) * size);
  for (uint64_t at = 0; at < count; at += piece_elements) {
    const auto piece = std::span(bytes).first(std::min(piece_elements, count - at) * size);
    TANDEM_CHECK(checkpoint.source->read(weight.name(), (first + at) * size, piece));
    TANDEM_CHECK(visit(first + at, std::span<const std::byte>(piece)));
    if (progress) {
      TANDEM_CHECK(progress(piece.size()));
    }
  }
  return {};
}

/// The elements in another dtype; `room` holds them if they are not the same bytes.
Result<std::span<const std::byte>> in_dtype(const ConvertRun& convert, size_t size, uint64_t first,
                                            std::span<const std::byte> bytes, uint64_t count,
                                            std::vector<std::byte>& room) {
  if (!convert) return bytes;
  room.resize(count * size);
  TANDEM_CHECK(convert(first, bytes, room));
  return std::span<const std::byte>(room);
}

/// Counts the places of all axes but the last on by one.
void next_row(const Shape& shape, Shape& at) {
  for (size_t axis = at.size(); axis > 0 && ++at[axis - 1] == shape[axis - 1]; --axis) at[axis - 1] = 0;
}

/// A fingerprint in the making.
struct Summing {
  DType dtype;
  ConvertRun convert;
  Fingerprint made;
  uint64_t first_hash = 0;

  void add(uint64_t first, std::span<const std::byte> bytes, uint64_t slot_elements) {
    const size_t size = size_of(dtype);
    const uint64_t end = first + bytes.size() / size;
    if (first == 0 && !bytes.empty()) first_hash = sum_of(size, bytes.data(), 1);
    for (uint64_t at = first; at < end;) {
      const uint64_t next =
          made.slots.empty() ? end : std::min(end, (at / slot_elements + 1) * slot_elements);
      const uint64_t sum = sum_of(size, bytes.data() + (at - first) * size, next - at);
      if (!made.slots.empty()) made.slots[at / slot_elements] += sum;
      made.whole += sum;
      at = next;
    }
  }
};

}  // namespace

Result<std::map<DType, Fingerprint>> fingerprints(const Checkpoint& checkpoint, const Weight& weight,
                                                  const std::set<DType>& dtypes, const Progress& progress) {
  std::vector<Summing> sums;
  const bool with_slots = weight.shape().size() >= 3 && weight.count > 0;
  for (const DType dtype : dtypes) {
    TANDEM_TRY(ConvertRun convert, converter(checkpoint, weight, dtype));
    sums.push_back({dtype, std::move(convert), {}, 0});
    if (with_slots) sums.back().made.slots.resize(weight.shape()[0]);
  }
  const uint64_t slot_elements = with_slots ? weight.count / weight.shape()[0] : 0;
  std::vector<std::byte> room;
  const auto visit = [&](uint64_t first, std::span<const std::byte> bytes) -> Status {
    const uint64_t count = bytes.size() / size_of(weight.info->dtype);
    for (Summing& sum : sums) {
      TANDEM_TRY(const auto elements, in_dtype(sum.convert, size_of(sum.dtype), first, bytes, count, room));
      sum.add(first, elements, slot_elements);
    }
    return {};
  };
  TANDEM_CHECK(for_each_piece(checkpoint, weight, 0, weight.count, kPieceElements, progress, visit));
  std::map<DType, Fingerprint> made;
  for (Summing& sum : sums) {
    sum.made.constant = sum.made.whole == sum.first_hash * weight.count;
    made.emplace(sum.dtype, std::move(sum.made));
  }
  return made;
}

Result<std::vector<std::vector<uint64_t>>> axis_sums(const Checkpoint& checkpoint, const Weight& weight,
                                                     DType as, uint64_t first, const Shape& shape,
                                                     const Progress& progress) {
  std::vector<std::vector<uint64_t>> sums;
  for (const uint64_t size : shape) sums.emplace_back(size);
  TANDEM_TRY(const uint64_t count, element_count(shape));
  if (count == 0 || shape.empty()) return sums;
  TANDEM_TRY(const ConvertRun convert, converter(checkpoint, weight, as));
  const uint64_t row = shape.back();
  const uint64_t rows_at_once = std::max<uint64_t>(1, kPieceElements / row);
  std::vector<std::byte> room;
  Shape at(shape.size() - 1, 0);  // of the row
  const auto visit = [&](uint64_t from, std::span<const std::byte> bytes) -> Status {
    const uint64_t elements = bytes.size() / size_of(weight.info->dtype);
    TANDEM_TRY(const auto made, in_dtype(convert, size_of(as), from, bytes, elements, room));
    for (uint64_t done = 0; done < elements; done += row) {
      const uint64_t sum = add_row(size_of(as), made.data() + done * size_of(as), sums.back());
      for (size_t axis = 0; axis < at.size(); ++axis) sums[axis][at[axis]] += sum;
      next_row(shape, at);
    }
    return {};
  };
  TANDEM_CHECK(for_each_piece(checkpoint, weight, first, count, rows_at_once * row, progress, visit));
  return sums;
}

Result<Profile> profile(const Checkpoint& checkpoint, const Weight& weight, const Progress& progress) {
  Profile made;
  for (const uint64_t size : weight.shape())
    if (size != 1) made.shape.push_back(size);
  for (const uint64_t size : made.shape) made.mean_squares.emplace_back(size);
  if (!is_float(weight.info->dtype) || weight.count == 0 || made.shape.empty()) return made;
  TANDEM_TRY(const ConvertRun convert, converter(checkpoint, weight, DType::f32));
  const uint64_t row = made.shape.back();
  std::vector<std::byte> room;
  Shape at(made.shape.size() - 1, 0);  // of the row
  const auto visit = [&](uint64_t first, std::span<const std::byte> bytes) -> Status {
    const uint64_t count = bytes.size() / size_of(weight.info->dtype);
    TANDEM_TRY(const auto elements, in_dtype(convert, sizeof(float), first, bytes, count, room));
    for (uint64_t done = 0; done < count; done += row) {
      double sum = 0;
      for (uint64_t i = 0; i < row; ++i) {
        float value;
        std::memcpy(&value, elements.data() + (done + i) * sizeof(float), sizeof(float));
        const double square = std::isnan(value) ? 0 : double{value} * value;
        made.mean_squares.back()[i] += square;
        sum += square;
      }
      for (size_t axis = 0; axis < at.size(); ++axis) made.mean_squares[axis][at[axis]] += sum;
      next_row(made.shape, at);
    }
    return {};
  };
  const uint64_t piece = std::max<uint64_t>(1, kPieceElements / row) * row;
  TANDEM_CHECK(for_each_piece(checkpoint, weight, 0, weight.count, piece, progress, visit));
  for (size_t axis = 0; axis < made.shape.size(); ++axis)
    for (double& value : made.mean_squares[axis])
      value /= static_cast<double>(weight.count / made.shape[axis]);
  return made;
}

namespace {

/// Pearson's correlation; 0 where one does not vary.
double correlation(const std::vector<double>& a, const std::vector<double>& b) {
  double a_mean = 0, b_mean = 0, ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) a_mean += a[i], b_mean += b[i];
  a_mean /= static_cast<double>(a.size()), b_mean /= static_cast<double>(b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - a_mean) * (b[i] - b_mean);
    aa += (a[i] - a_mean) * (a[i] - a_mean);
    bb += (b[i] - b_mean) * (b[i] - b_mean);
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0;
}

}  // namespace

bool near(const Profile& a, const Profile& b) {
  constexpr double kTogether = 0.9;
  if (a.shape.empty() || a.shape.size() != b.shape.size()) return false;
  return std::all_of(a.mean_squares.begin(), a.mean_squares.end(), [&](const auto& mine) {
    return std::any_of(b.mean_squares.begin(), b.mean_squares.end(), [&](const auto& other) {
      return mine.size() == other.size() && correlation(mine, other) > kTogether;
    });
  });
}

}  // namespace tandem::kinship
