#include "formats/tensor_bundle/index.h"

#include <bit>
#include <span>

#include "formats/proto/quiet_parse.h"
#include "formats/tensor_bundle/coding.h"
#include "formats/tensor_bundle/table.h"

namespace tandem {
namespace {

using tensorflow::BundleEntryProto;
using tensorflow::BundleHeaderProto;

constexpr int kMaxShards = 99'999;  // five digits in a data file's name
constexpr int kMaxSlices = 4096;
constexpr int kBundleVersion = 1;

Result<BundleHeaderProto> parse_header(const TableEntries& entries) {
  if (entries.empty() || !entries.front().first.empty())
    return corrupt("T4", "the table has no header entry (an empty key)")
        .because("a leveldb table, but not a checkpoint index");
  BundleHeaderProto header;
  if (!parse_quietly(header, entries.front().second))
    return corrupt("T4", "the header entry is no BundleHeaderProto");
  if (header.endianness() != BundleHeaderProto::LITTLE)
    return unsupported("C09", "the bundle is big-endian (endianness {}); only little-endian bundles are read",
                       static_cast<int>(header.endianness()))
        .because("written on a big-endian machine; save it again on a little-endian one");
  if (header.num_shards() < 1 || header.num_shards() > kMaxShards)
    return corrupt("T4", "the header claims {} data shards, expected 1 to {}", header.num_shards(),
                   kMaxShards);
  if (header.version().min_consumer() > kBundleVersion)
    return unsupported("T4", "the bundle needs a reader of version {}, this one is {}",
                       header.version().min_consumer(), kBundleVersion);
  return header;
}

Result<Shape> parse_shape(const tensorflow::TensorShapeProto& proto) {
  if (proto.unknown_rank()) return corrupt("T5", "the shape has no rank");
  Shape shape;
  for (const auto& dim : proto.dim()) {
    if (dim.size() < 0) return corrupt("T5", "an axis of the shape is {}", dim.size());
    shape.push_back(static_cast<uint64_t>(dim.size()));
  }
  return shape;
}

Result<StoredPiece> parse_piece(const BundleEntryProto& entry, const Shape& shape, int shards) {
  if (entry.shard_id() < 0 || entry.shard_id() >= shards)
    return corrupt("T4", "shard id {} is not among the {} shards", entry.shard_id(), shards);
  if (entry.offset() < 0 || entry.size() < 0)
    return corrupt("T5", "offset {} or size {} is negative", entry.offset(), entry.size());
  StoredPiece piece{whole(shape), static_cast<uint32_t>(entry.shard_id()),
                    static_cast<uint64_t>(entry.offset()), static_cast<uint64_t>(entry.size()),
                    entry.crc32c()};
  if (const auto dtype = dtype_of_tensorflow(entry.dtype())) {
    TANDEM_TRY(const uint64_t bytes, byte_count(*dtype, shape));
    if (bytes != piece.size)
      return corrupt("T5", "{}{} needs {} bytes, the entry has {}", name(*dtype), to_string(shape), bytes,
                     piece.size);
  }
  return piece;
}

bool is_whole_axis(const tensorflow::TensorSliceProto::Extent& extent) { return !extent.has_length(); }

/// The box of a slice in a tensor.
Result<Box> slice_box(const tensorflow::TensorSliceProto& slice, const Shape& shape) {
  if (static_cast<size_t>(slice.extent_size()) != shape.size())
    return corrupt("T5", "a slice of rank {} in a tensor {}", slice.extent_size(), to_string(shape));
  Box box = whole(shape);
  for (int axis = 0; axis < slice.extent_size(); ++axis) {
    const auto& extent = slice.extent(axis);
    if (is_whole_axis(extent)) continue;
    if (extent.start() < 0 || extent.length() < 0)
      return corrupt("T5", "a slice starts at {} and has length {}", extent.start(), extent.length());
    box.begin[axis] = static_cast<uint64_t>(extent.start());
    box.size[axis] = static_cast<uint64_t>(extent.length());
  }
  if (!contains(shape, box))
    return corrupt("T5", "slice {} from {} lies outside the tensor {}", to_string(box.size),
                   to_string(box.begin), to_string(shape));
  return box;
}

bool overlap(const Box& a, const Box& b) {
  for (size_t axis = 0; axis < a.begin.size(); ++axis)
    if (a.begin[axis] + a.size[axis] <= b.begin[axis] || b.begin[axis] + b.size[axis] <= a.begin[axis])
      return false;
  return true;
}

using Entries = std::map<std::string, BundleEntryProto, std::less<>>;

/// The pieces of a partitioned tensor, each an entry of its own.
Result<std::vector<StoredPiece>> parse_slices(const std::string& key, const BundleEntryProto& entry,
                                              const Shape& shape, const Entries& entries, int shards) {
  if (entry.slices_size() > kMaxSlices)
    return corrupt("T5", "{} slices, the limit is {}", entry.slices_size(), kMaxSlices);
  std::vector<StoredPiece> pieces;
  uint64_t covered = 0;
  for (const auto& slice : entry.slices()) {
    TANDEM_TRY(const Box box, slice_box(slice, shape));
    const auto found = entries.find(slice_key(key, slice));
    if (found == entries.end())
      return corrupt("T5", "the slice {} from {} has no entry", to_string(box.size), to_string(box.begin));
    TANDEM_TRY(const Shape stored, parse_shape(found->second.shape()));
    if (stored != box.size || found->second.dtype() != entry.dtype())
      return corrupt("T5", "a slice of shape {} is stored as {}", to_string(box.size), to_string(stored));
    TANDEM_TRY(StoredPiece piece, parse_piece(found->second, stored, shards));
    piece.box = box;
    for (const StoredPiece& other : pieces)
      if (element_count(box) > 0 && overlap(box, other.box)) return corrupt("T5", "two slices overlap");
    covered += element_count(box);  // cannot overflow: boxes of one checked shape that do not overlap
    pieces.push_back(std::move(piece));
  }
  TANDEM_TRY(const uint64_t all, element_count(shape));
  if (covered != all) return corrupt("T5", "the slices cover {} of {} elements", covered, all);
  return pieces;
}

Result<StoredTensor> parse_tensor(const std::string& key, const BundleEntryProto& entry,
                                  const Entries& entries, int shards) {
  StoredTensor tensor;
  tensor.tensorflow_dtype = entry.dtype();
  tensor.dtype = dtype_of_tensorflow(entry.dtype());
  TANDEM_TRY(tensor.shape, parse_shape(entry.shape()));
  const auto fits = byte_count(tensor.dtype.value_or(DType::u8), tensor.shape);
  if (!fits.ok()) return fits.error();
  if (entry.slices_size() == 0) {
    TANDEM_TRY(StoredPiece piece, parse_piece(entry, tensor.shape, shards));
    tensor.pieces.push_back(std::move(piece));
  } else {
    TANDEM_TRY(tensor.pieces, parse_slices(key, entry, tensor.shape, entries, shards));
  }
  return tensor;
}

// TensorFlow's ordered code: numbers and strings whose bytes sort as their values do.
void put_ordered_number(std::string& out, uint64_t value) {
  std::string bytes;
  for (; value > 0; value >>= 8) bytes.insert(bytes.begin(), static_cast<char>(value));
  out.push_back(static_cast<char>(bytes.size()));
  out += bytes;
}

void put_ordered_string(std::string& out, std::string_view text) {
  for (const char c : text) {
    out.push_back(c);
    if (c == '\x00') out.push_back('\xff');
    if (c == '\xff') out.push_back('\x00');
  }
  out.append("\x00\x01", 2);
}

// Seven value bits a byte, sign included; as many leading ones as there are bytes, flipped by a negative
// value's sign bits.
void put_ordered_signed(std::string& out, int64_t value) {
  constexpr uint8_t kHeader[11][2] = {{0, 0},    {0x80, 0}, {0xc0, 0}, {0xe0, 0},    {0xf0, 0},   {0xf8, 0},
                                      {0xfc, 0}, {0xfe, 0}, {0xff, 0}, {0xff, 0x80}, {0xff, 0xc0}};
  const auto bits = static_cast<uint64_t>(value < 0 ? ~value : value);
  const size_t length = (static_cast<size_t>(std::bit_width(bits)) + 7) / 7;
  std::string bytes(2, value < 0 ? '\xff' : '\x00');
  for (int shift = 56; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(value >> shift));
  bytes = bytes.substr(bytes.size() - length);
  for (size_t i = 0; i < std::min<size_t>(length, 2); ++i)
    bytes[i] = static_cast<char>(bytes[i] ^ kHeader[length][i]);
  out += bytes;
}

}  // namespace

std::string slice_key(std::string_view tensor, const tensorflow::TensorSliceProto& slice) {
  std::string key;
  put_ordered_number(key, 0);
  put_ordered_string(key, tensor);
  put_ordered_number(key, static_cast<uint64_t>(slice.extent_size()));
  for (const auto& extent : slice.extent()) {
    put_ordered_signed(key, is_whole_axis(extent) ? 0 : extent.start());
    put_ordered_signed(key, is_whole_axis(extent) ? -1 : extent.length());
  }
  return key;
}

Result<BundleIndex> parse_index(std::string_view file, const std::string& label) {
  TANDEM_TRY(TableEntries table, read_table(file, label));
  auto header = parse_header(table);
  if (!header.ok()) return std::move(header).error().at(label);
  BundleIndex index;
  index.shards = static_cast<uint32_t>(header.value().num_shards());

  Entries entries;
  for (auto& [key, value] : std::span(table).subspan(1)) {
    BundleEntryProto entry;
    if (!parse_quietly(entry, value))
      return corrupt("T4", "'{}' is no BundleEntryProto", printable(key)).at(label);
    entries.emplace_hint(entries.end(), std::move(key), std::move(entry));
  }
  for (const auto& [key, entry] : entries) {
    if (key.starts_with('\0')) continue;  // a slice: read with its tensor
    auto tensor = parse_tensor(key, entry, entries, header.value().num_shards());
    if (!tensor.ok()) return std::move(tensor).error().at(label + ": " + printable(key));
    index.tensors.emplace_hint(index.tensors.end(), key, std::move(tensor).value());
  }
  return index;
}

}  // namespace tandem
