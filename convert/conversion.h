#pragma once
// What a conversion will write, decided from headers alone, and its parts as calls that do not depend on each
// other: each data shard, then everything else.

#include "base/hash.h"
#include "base/piece_file.h"
#include "convert/convert.h"
#include "convert/open_model.h"

namespace tandem {

/// One file of weights.
struct DataShard {
  std::string file;                 ///< path inside the output: "variables/variables.data-00000-of-00002"
  std::vector<TensorInfo> tensors;  ///< in the order in which they lie
  uint64_t bytes = 0;               ///< of the file
};

/// What writing one tensor brought to light.
struct WrittenTensor {
  std::string name;
  uint32_t crc32c = 0;  ///< of its data
  CastCounts counts;
  bool remade_scales = false;  ///< fp8 scales were remade, since values no longer fit them
};

struct WrittenShard {
  FileSums sums;
  std::vector<WrittenTensor> tensors;  ///< as in DataShard
};

/// A file that a conversion reads, as it was when it was planned.
struct InputFile {
  std::string path;
  uint64_t bytes = 0;
  int64_t modified_ns = 0;
  std::string sha256;         ///< of its header, or of a small file's whole; empty for files of data alone
  uint64_t header_bytes = 0;  ///< that were hashed
  bool operator==(const InputFile&) const = default;
};

/// Called with the bytes of tensor data after each piece; its error stops the work.
using OnBytes = std::function<Status(uint64_t bytes)>;

class Conversion {
 public:
  virtual ~Conversion() = default;
  virtual const std::vector<DataShard>& shards() const = 0;
  virtual const std::vector<InputFile>& inputs() const = 0;
  /// Writes shard `index` into a new, empty file (none: makes the same bytes and keeps nothing), and syncs
  /// and closes it. May be called in any order, by several processes.
  virtual Result<WrittenShard> write(size_t index, std::unique_ptr<WritableFile> file,
                                     const OnBytes& on_bytes) const = 0;
  /// The file that a shard is, where it need not be written: its name in the output is a link or a clone of
  /// it. Its sums come from write() without a file. Empty otherwise.
  virtual std::string linked_file(size_t) const { return {}; }
  /// The files of the source that are not needed once some tasks are done, by absolute path, and these tasks:
  /// those that read the file. Only where every tensor in it is carried over as it is.
  virtual const std::map<std::string, std::vector<size_t>>& consumed_files() const {
    static const std::map<std::string, std::vector<size_t>> none;
    return none;
  }
  /// Closes a file of consumed_files(), which no task reads any more: deleted or not, until then it takes its
  /// place on the disk.
  virtual void close_input(const std::string& /*path*/) {}
  /// Begins what finish() needs on a thread beside the shards, if options allow more than one. Else, and
  /// without this call, finish() makes it.
  virtual void begin_finish() {}
  /// Writes everything else into the folder that holds the shards: index, graph, config, tokenizer. Once: the
  /// graph is given away, not copied.
  virtual Status finish(const FileSystem& files, const std::string& folder,
                        const std::vector<WrittenShard>& written) = 0;
  virtual ConvertReport report(const std::vector<WrittenShard>& written) const = 0;
  /// Bytes that finish() will write, about.
  virtual uint64_t rest_bytes() const = 0;
};

/// Plans a conversion. With `check_scales` every fp8 scale is read and checked now; else when it is used.
/// Errors: as convert, less what only data can show.
Result<std::unique_ptr<Conversion>> plan_conversion(const FileSystem& files, const std::string& source,
                                                    const ConvertOptions& options, bool check_scales);

/// The files of models that are open, and of a map (or none).
Result<std::vector<InputFile>> input_files(const FileSystem& files,
                                           const std::vector<const OpenedModel*>& models,
                                           const std::string& map_file);
/// The same files as they are now.
Result<std::vector<InputFile>> look_again(const FileSystem& files, const std::vector<InputFile>& inputs);

/// Errors: convert_c8 (invalid) inputs that are not as they were, a line each.
Status same_inputs(const std::vector<InputFile>& before, const std::vector<InputFile>& now);

}  // namespace tandem
