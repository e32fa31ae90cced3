#pragma once
// TensorFlow's checkpoint container (TensorBundle V2): PREFIX.index (a leveldb table of BundleEntryProto) and
// data shards. The format is written down in docs/formats/tensor_bundle.md.

#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "base/piece_file.h"
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
  /// Several bundles as one, for a model in stages. A tensor that several have is read from the first of
  /// them. Errors: stages_c4 (invalid) it is not the same in all, by dtype, shape and stored checksum.
  static Result<std::unique_ptr<TensorBundle>> join(std::vector<std::unique_ptr<TensorBundle>> bundles);
  /// Reads every byte and compares CRC-32C. Errors: corrupt, naming tensor and file.
  virtual Status verify_checksums() const = 0;
  /// The same for one tensor, by its name.
  virtual Status verify_checksum(std::string_view tensor) const = 0;
  /// The CRC-32C that the index holds for a tensor's data, masked; nothing for one in slices.
  virtual std::optional<uint32_t> stored_checksum(std::string_view tensor) const = 0;
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

/// The file of one data shard: "PREFIX.data-00000-of-00002".
std::string bundle_shard_name(std::string_view prefix, uint32_t shard, uint32_t shards);

/// Tensors in a data shard start at multiples of this.
inline constexpr uint64_t kBundleAlignment = 64;

/// What the index says of one key.
struct BundleEntry {
  std::string key;
  int tensorflow_dtype = 0;  ///< tensorflow.DataType
  Shape shape;
  uint32_t shard = 0;
  uint64_t offset = 0, bytes = 0;
  uint32_t masked_crc = 0;
};

/// Fills `out` with a tensor's bytes from `offset` on.
using NextBytes = PieceFile::Fill;

/// Streams one data shard, front to back, with running CRCs.
class BundleShardWriter {
 public:
  /// `file` is new and empty; `shard` is its number.
  BundleShardWriter(std::unique_ptr<WritableFile> file, uint32_t shard, PieceOptions options = {})
      : file_(std::move(file), options), shard_(shard) {}
  /// Adds one tensor whose bytes come in pieces: `next` is called until the tensor is whole. Data starts at a
  /// multiple of kBundleAlignment bytes. Errors: io, whatever `next` returns.
  Status add(const std::string& key, DType dtype, const Shape& shape, const NextBytes& next);
  Status add_string(const std::string& key, std::string_view value);
  /// Syncs and closes the file.
  Result<FileSums> close();
  /// Checksums are there once the file is closed.
  const std::vector<BundleEntry>& entries() const { return entries_; }

 private:
  PieceFile file_;
  uint32_t shard_;
  std::vector<BundleEntry> entries_;
  size_t appended_ = 0;                             // calls of file_.append
  std::vector<std::pair<size_t, size_t>> tensors_;  // which entry, and which call added its data
};
/// What add_string makes of a text that is the first of its shard: its entry, for a writer that was not
/// there.
BundleEntry string_entry(const std::string& key, std::string_view value);

/// Writes and syncs PREFIX.index. Errors: io; bug for a key that is empty or there twice.
Status write_bundle_index(const FileSystem& files, const std::string& prefix, uint32_t shards,
                          const std::vector<BundleEntry>& entries);

/// Streams a bundle of one data shard, then its index.
class TensorBundleWriter {
 public:
  static Result<std::unique_ptr<TensorBundleWriter>> create(const FileSystem& files,
                                                            const std::string& prefix);
  virtual ~TensorBundleWriter() = default;
  /// As BundleShardWriter.
  virtual Status add(const std::string& key, DType dtype, const Shape& shape, const NextBytes& next) = 0;
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
