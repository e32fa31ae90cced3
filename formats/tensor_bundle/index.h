#pragma once
// What a bundle's index says: the header, and one entry a key. Checked whole before any data is touched.

#include <map>
#include <string>

#include "base/shape.h"
#include "tensorflow/core/protobuf/tensor_bundle.pb.h"

namespace tandem {

/// Where one stretch of bytes lies: a tensor, or one slice of a partitioned tensor.
struct StoredPiece {
  Box box;  ///< in the tensor
  uint32_t shard = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
  uint32_t masked_crc = 0;
};

/// A key's value: what TensorFlow's BundleEntryProto says, sizes checked.
struct StoredTensor {
  int tensorflow_dtype = 0;
  std::optional<DType> dtype;  ///< nothing for strings and types that we do not have
  Shape shape;
  std::vector<StoredPiece>
      pieces;  ///< one; several for a partitioned tensor, which they cover without overlap
};

struct BundleIndex {
  uint32_t shards = 1;
  std::map<std::string, StoredTensor, std::less<>> tensors;  ///< by key; slices are parts of their tensor
};

/// Parses an index file. Errors: T4 table, header, entry or shard id; T5 sizes and slices; C09 big endian.
Result<BundleIndex> parse_index(std::string_view file, const std::string& label);

/// The key under which one slice of a partitioned tensor is stored; an extent of the whole axis is (0, -1).
std::string slice_key(std::string_view tensor, const tensorflow::TensorSliceProto& slice);

}  // namespace tandem
