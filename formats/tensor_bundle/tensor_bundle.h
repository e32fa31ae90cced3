#pragma once
// TensorFlow's checkpoint container (TensorBundle V2): PREFIX.index (a leveldb table of BundleEntryProto) and
// data shards. The format is written down in docs/formats/tensor_bundle.md.

#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "base/file.h"
#include "base/tensor_source.h"

namespace tandem {

/// An object-based checkpoint names values by a walk from its root: {"model", "layers", "0", "mlp"} and an
/// attribute.
inline constexpr std::string_view kValueSuffix = "/.ATTRIBUTES/VARIABLE_VALUE";
inline constexpr std::string_view kObjectGraphKey = "_CHECKPOINTABLE_OBJECT_GRAPH";

/// Where bytes of a bundle's entry lie.
struct BundleExtent {
  std::string name;  ///< of the tensor, of one of its slices ("embedding[0:500,0:64]"), or a string's key
  std::string file;  ///< path of the data shard
  uint64_t offset = 0, bytes = 0;
};

/// A bundle on disk; index read and checked whole, data on demand.
/// tensors() are named by path ("model/layers/0/input_layernorm/weight"): with an object graph, found by
/// walking its edges from the root (never by the key's text: the same variable may be keyed
/// "variables/3/..."), shortest-and-first path wins but a path that begins with "model/" or "lm_head/" is
/// preferred over wrappers' lists; without one (TF1 style) by key. Entries that no variable uses (key ends in
/// kValueSuffix, or a plain key) are named by their key less the suffix.
class TensorBundle : public TensorSource {
 public:
  /// Errors: T4 index (magic, block CRC, key order, compression, shard id), T5 entry past its shard, C09 big
  /// endian, C24 which file is it, C26 index missing. `prefix` may also be the .index file, a data file, or a
  /// folder with a `checkpoint` state file.
  static Result<std::unique_ptr<TensorBundle>> open(const FileSystem& files, const std::string& prefix);
  /// Reads every byte and compares CRC-32C. Errors: corrupt, naming tensor and file.
  virtual Status verify_checksums() const = 0;
  /// A string tensor's single value (the object graph; scalars only). Errors: missing, corrupt.
  virtual Result<std::string> read_string(std::string_view key) const = 0;
  virtual bool has_object_graph() const = 0;
  /// The paths that one variable is reachable by, the chosen name first.
  virtual std::vector<std::string> aliases(std::string_view tensor) const = 0;
  /// Entries that are no tensors of ours, each "key: why": strings, and TensorFlow types that have no dtype
  /// here.
  virtual const std::vector<std::string>& remarks() const = 0;
  /// Where each entry lies, strings included; in no order, and damaged files may let them overlap.
  virtual std::vector<BundleExtent> extents() const = 0;
};

/// Streams a bundle: data front to back with running CRCs, then the index. One data shard.
class TensorBundleWriter {
 public:
  static Result<std::unique_ptr<TensorBundleWriter>> create(const FileSystem& files,
                                                            const std::string& prefix);
  virtual ~TensorBundleWriter() = default;
  /// Adds one tensor whose bytes come in pieces: `next` is called with a buffer to fill until the tensor is
  /// whole. Data starts at a multiple of 64 bytes. Errors: io, whatever `next` returns.
  virtual Status add(const std::string& key, DType dtype, const Shape& shape,
                     const std::function<Status(uint64_t offset, std::span<std::byte> out)>& next) = 0;
  virtual Status add_string(const std::string& key, std::string_view value) = 0;
  /// Writes the index and syncs all files.
  virtual Status finish() = 0;
};

/// One variable of an object graph: where it hangs, and under which key its value lies.
struct TrackedVariable {
  std::string path;  ///< "model/layers/0/input_layernorm/weight"
  std::string key;   ///< value_key(path)
};
/// The serialized TrackableObjectGraph with one object a path component; nodes are numbered as the paths
/// first need them.
std::string object_graph(const std::vector<TrackedVariable>& variables);
/// The key of the variable at a path: dots doubled, as TensorFlow escapes them, and kValueSuffix.
std::string value_key(std::string_view path);

}  // namespace tandem
