#pragma once
// A smaller checkpoint cut out of a large one: consecutive layers, byte for byte, with a config that fits.

#include <functional>
#include <set>

#include "base/file.h"
#include "base/json.h"
#include "formats/safetensors/safetensors.h"

namespace tandem {

/// Layers [begin, end); nothing is the first layer, or the last one included.
struct LayerRange {
  std::optional<uint64_t> begin, end;
};
/// "0:4", ":4" or "57:". Errors: usage (slice_c1) anything else.
Result<LayerRange> layer_range(std::string_view text);

struct SliceOptions {
  LayerRange layers;
  bool with_mtp = false;  ///< keep the multi-token-prediction layers, behind the last layer that is kept
  bool force = false;     ///< replace an existing output, if it is a model or an empty folder
  std::optional<uint64_t> max_shard_bytes;  ///< split anew; nothing keeps the source's split
  std::set<std::string> accepted_keys;      ///< config keys that nobody reads
  SafetensorsLimits limits;                 ///< of the headers that are read
  /// Told the bytes done and to do; its error stops the work.
  std::function<Status(uint64_t done, uint64_t total)> progress;
};

struct SliceReport {
  std::string architecture;
  uint64_t begin = 0, end = 0, of = 0;  ///< layers that were kept, of how many
  uint64_t tensors = 0;
  uint64_t bytes = 0;                  ///< of tensor data written
  std::vector<std::string> shards;     ///< file names
  std::vector<std::string> mtp;        ///< modules of multi-token prediction: "model.layers.61"
  bool kept_mtp = false;               ///< they were kept
  std::map<std::string, Json> config;  ///< keys of config.json that changed, and their values
  std::vector<std::string> remarks;
};
Json to_json(const SliceReport& report);

/// Cuts layers out of the Hugging Face folder `source` into the new folder `destination`. The layers are
/// numbered from 0; everything that is no layer (embedding, last norm, head, side files) is kept. Reads only
/// what it writes, in a few MiB of memory.
/// Errors: slice_c1 no layers in the range, or none so far up (usage); slice_c2 the config names single
/// layers, which a slice that does not begin at 0 renumbers; convert_c1 the checkpoint does not fit its
/// config; exists, convert_c4 and convert_c7 as convert; unsupported for a source of another kind.
Result<SliceReport> slice_model(const FileSystem& files, const std::string& source,
                                const std::string& destination, const SliceOptions& options);

}  // namespace tandem
