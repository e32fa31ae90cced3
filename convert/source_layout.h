#pragma once
// --layout source: the data shards of the bundle are the safetensors files themselves. For this folder.

#include "convert/direction.h"

namespace tandem {

/// One safetensors file as a data shard.
struct SourceShard {
  std::string path;                   ///< of the file
  std::vector<std::string> hf_names;  ///< of each tensor of the DataShard
  std::vector<uint64_t> offsets;      ///< where each begins in the file
};

/// The rules without transpositions: each TensorFlow tensor is a Hugging Face tensor, byte for byte.
/// Errors: convert_c10 (unsupported) rows that stack tensors (experts), or a checkpoint with fp8 weights.
Result<RuleTable> in_source_layout(RuleTable rules, const TensorSource& checkpoint);

/// The files of a folder as shards, tensors in their order in the file. Tensors that no plan reads are in the
/// files, and in no index.
Status source_shards(const FileSystem& files, const OpenedModel& source, const RuleTable& rules,
                     const std::vector<TensorPlan>& plans, const TensorSource& tensors,
                     const SafetensorsLimits& limits, std::vector<DataShard>& shards,
                     std::vector<SourceShard>& sources);

/// Copies a file of weights into `file`; without one, reads it for its sums, by `threads` threads. No
/// SHA-256: the bytes are the source's, and the pass is to cost no more than reading.
Result<WrittenShard> write_source_shard(const FileSystem& files, const DataShard& shard,
                                        const SourceShard& source, unsigned threads,
                                        std::unique_ptr<WritableFile> file, const OnBytes& on_bytes);

}  // namespace tandem
