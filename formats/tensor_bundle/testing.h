#pragma once
// Bytes by hand, for tests and fuzzers of bundles.

#include <string>

#include "base/file.h"
#include "base/hash.h"
#include "formats/tensor_bundle/coding.h"
#include "formats/tensor_bundle/table.h"
#include "formats/tensor_bundle/tensor_bundle.h"
#include "tensorflow/core/protobuf/tensor_bundle.pb.h"

namespace tandem::testing {

/// "00 06 ff" as bytes.
inline std::string from_hex(std::string_view text) {
  std::string bytes;
  int digits = 0, value = 0;
  for (const char c : text) {
    if (c == ' ' || c == '\n') continue;
    value = value * 16 + (c <= '9' ? c - '0' : c - 'a' + 10);
    if (++digits % 2 == 0) {
      bytes.push_back(static_cast<char>(value));
      value = 0;
    }
  }
  return bytes;
}

inline std::string with_trailer(std::string block, char compression = 0) {
  block.push_back(compression);
  const uint32_t crc = mask_crc(crc32c(0, as_bytes(block)));
  put_fixed32(block, crc);
  return block;
}

/// A table file around one data block as given, whose checksums are right whatever it holds.
inline std::string table_around(const std::string& block, char compression = 0) {
  const std::string empty("\0\0\0\0\1\0\0\0", 8);
  std::string file = with_trailer(block, compression), handle, footer;
  put_varint(handle, 0);
  put_varint(handle, block.size());
  std::string index;
  for (const uint64_t number : {uint64_t{0}, uint64_t{4}, uint64_t{handle.size()}}) put_varint(index, number);
  index += "\xff\xff\xff\xff" + handle + empty;
  for (const std::string& part : {empty, index}) {
    put_varint(footer, file.size());
    put_varint(footer, part.size());
    file += with_trailer(part);
  }
  footer.resize(40);
  return file + footer + from_hex("57fb808b247547db");
}

/// An index file: a header of `shards` shards, then the entries.
inline std::string index_of(
    TableEntries entries, int shards = 1,
    tensorflow::BundleHeaderProto::Endianness endianness = tensorflow::BundleHeaderProto::LITTLE) {
  tensorflow::BundleHeaderProto header;
  header.set_num_shards(shards);
  header.set_endianness(endianness);
  header.mutable_version()->set_producer(1);
  entries.insert(entries.begin(), {"", header.SerializeAsString()});
  return write_table(entries);
}

/// A float entry.
inline tensorflow::BundleEntryProto float_entry(const Shape& shape, int64_t offset, int64_t size,
                                                int shard = 0) {
  tensorflow::BundleEntryProto entry;
  entry.set_dtype(tensorflow::DT_FLOAT);
  for (const uint64_t axis : shape) entry.mutable_shape()->add_dim()->set_size(static_cast<int64_t>(axis));
  entry.set_offset(offset);
  entry.set_size(size);
  entry.set_shard_id(shard);
  return entry;
}

/// Writes a tensor whose bytes are at hand.
inline Status add(TensorBundleWriter& writer, const std::string& key, DType dtype, const Shape& shape,
                  std::string_view data) {
  return writer.add(key, dtype, shape, [&](uint64_t offset, std::span<std::byte> out) -> Status {
    const auto bytes = as_bytes(data).subspan(offset, out.size());
    std::copy(bytes.begin(), bytes.end(), out.begin());
    return {};
  });
}

inline std::string read_all(const TensorSource& source, const TensorInfo& tensor) {
  std::string bytes(byte_count(tensor.dtype, tensor.shape).value(), '\0');
  const auto done = source.read(tensor.name, 0, std::as_writable_bytes(std::span(bytes)));
  return done.ok() ? bytes : done.error().message();
}

}  // namespace tandem::testing
