#pragma once
// The two directions of convert, each in its file; convert.cpp chooses. Private to this folder.

#include <algorithm>

#include "convert/conversion.h"
#include "convert/open_model.h"
#include "convert/tensor_view.h"

namespace tandem {

/// Hugging Face to TensorFlow.
Result<std::unique_ptr<Conversion>> plan_forward(const FileSystem& files, OpenedModel source,
                                                 const ConvertOptions& options, bool check_scales);
/// TensorFlow to Hugging Face.
Result<std::unique_ptr<Conversion>> plan_back(const FileSystem& files, OpenedModel source,
                                              const ConvertOptions& options);

inline constexpr uint64_t kDefaultShardBytes = 5'000'000'000;
/// What pieces on their way, the program and the graph of a model take.
inline constexpr uint64_t kFixedMemory = 52ull << 20;
/// Of --memory, what the buffers of a transposition may take; a quarter, as reading and casting takes some
/// too.
inline uint64_t transform_memory(const ConvertOptions& options) {
  return std::min(options.memory / 4, options.memory - kFixedMemory);
}

/// How a file of weights is written.
inline PieceOptions piece_options(const ConvertOptions& options) { return {options.sha256, options.threads}; }

/// The end of Conversion::write: `sums` of the file, and the CRC-32C and counts of each tensor. Errors: bug
/// for a file of another size.
Result<WrittenShard> written_shard(const DataShard& shard, FileSums sums, std::span<const uint32_t> crcs,
                                   const std::function<CastCounts(const std::string&)>& counts);

/// Refuses names that differ in case only: they would be one file or one key elsewhere (R4).
Status distinct_names(const TensorSource& source);

/// Refuses finite values that became infinite, naming each tensor and how many (D04, convert_c2).
Status no_overflow(const std::vector<ConvertedTensor>& tensors);

}  // namespace tandem
