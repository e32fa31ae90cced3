// Writing a checkpoint's weights: which tensor goes to which shard, the shards, the index.

#include "formats/hf_folder/hf_folder.h"
#include "formats/hf_folder/names.h"
#include "formats/safetensors/header.h"

namespace tandem {
namespace {

using ShardContents = std::map<std::string, std::vector<TensorInfo>>;

Result<ShardContents> split_as_told(const std::vector<TensorInfo>& tensors,
                                    const std::map<std::string, std::string>& shard_of) {
  ShardContents shards;
  std::vector<std::string> homeless;
  for (const TensorInfo& tensor : tensors) {
    const auto shard = shard_of.find(tensor.name);
    if (shard == shard_of.end()) {
      homeless.push_back(tensor.name);
      continue;
    }
    TANDEM_CHECK(check_shard_name(shard->second));
    shards[shard->second].push_back(tensor);
  }
  if (!homeless.empty())
    return invalid("hf_folder_c1", "the original has no shard for {} tensors: {}", homeless.size(),
                   some_of(homeless));
  if (shards.empty()) shards[kSingleFile];
  return shards;
}

Result<ShardContents> split_by_size(const std::vector<TensorInfo>& tensors, uint64_t max_shard_bytes) {
  std::vector<std::vector<TensorInfo>> parts(1);
  uint64_t filled = 0;
  for (const TensorInfo& tensor : tensors) {
    TANDEM_TRY(const uint64_t bytes, byte_count(tensor.dtype, tensor.shape));
    const auto with_it = checked_add(filled, bytes);
    const bool fits = with_it && *with_it <= max_shard_bytes;
    if (!fits && !parts.back().empty()) {
      parts.emplace_back();
      filled = 0;
    }
    parts.back().push_back(tensor);
    filled += bytes;
  }
  ShardContents shards;
  for (size_t i = 0; i < parts.size(); ++i)
    shards[parts.size() == 1 ? kSingleFile : shard_name(i + 1, parts.size())] = std::move(parts[i]);
  return shards;
}

}  // namespace

Result<std::vector<HfShard>> hf_shards(const std::vector<TensorInfo>& tensors,
                                       const HfWriteOptions& options) {
  TANDEM_TRY(ShardContents contents, options.shard_of.empty()
                                         ? split_by_size(tensors, options.max_shard_bytes)
                                         : split_as_told(tensors, options.shard_of));
  std::vector<HfShard> shards;
  for (auto& [file, inside] : contents) shards.push_back({file, file_layout(std::move(inside))});
  return shards;
}

Status write_hf_index(const FileSystem& files, const std::string& folder,
                      const std::vector<HfShard>& shards) {
  if (shards.size() == 1 && shards.front().file == kSingleFile) return {};
  std::map<std::string, std::string> weight_map;
  uint64_t total = 0;
  for (const HfShard& shard : shards)
    for (const TensorInfo& tensor : shard.tensors) {
      weight_map.emplace(tensor.name, shard.file);
      total += byte_count(tensor.dtype, tensor.shape).value();
    }
  Json index;
  index["metadata"]["total_size"] = total;
  index["weight_map"] = weight_map;
  return write_text(files, join(folder, kIndexFile), index.dump(2) + "\n");
}

Status write_hf_weights(const FileSystem& files, const std::string& folder, const TensorSource& source,
                        const HfWriteOptions& options) {
  TANDEM_TRY(const std::vector<HfShard> shards, hf_shards(source.tensors(), options));
  uint64_t before = 0;
  for (const HfShard& shard : shards) {
    uint64_t written = 0;
    const auto progress = [&](uint64_t bytes) -> Status {
      written = bytes;
      return options.progress ? options.progress(before + bytes) : Status{};
    };
    TANDEM_CHECK(write_safetensors(files, join(folder, shard.file), source, shard.tensors, {}, progress));
    before += written;
  }
  return write_hf_index(files, folder, shards);
}

}  // namespace tandem
