#pragma once
// A Hugging Face checkpoint folder: config.json, model.safetensors or its shards with
// model.safetensors.index.json, tokenizer files.

#include <functional>
#include <memory>

#include "base/json.h"
#include "formats/safetensors/safetensors.h"

namespace tandem {

/// An opened folder: all its tensors as one source. Immutable; the files stay open until closed.
class HfFolder : public TensorSource {
 public:
  struct Options {
    SafetensorsLimits limits;
    bool allow_no_weights = false;  ///< a folder with config.json but without weights opens with no tensors
  };
  /// `path` is a folder, or a single .safetensors file (then there is no config).
  /// With an index, only the shards it names are read; without one, only model.safetensors.
  /// Errors: missing; X1 for a shard name that is not a plain file name, R5 X6 for what it leads to (unsafe);
  /// X4 with every difference between index and shards in one report; P16 for a file whose bytes are of
  /// another format than its name says; those of SafetensorsFile::open and parse_json.
  static Result<std::unique_ptr<HfFolder>> open(const FileSystem& files, const std::string& path,
                                                const Options& options);
  virtual const std::string& path() const = 0;
  virtual const std::string& config_text() const = 0;  ///< config.json as written, or empty
  virtual const Json& config() const = 0;
  virtual bool has_weights() const = 0;
  virtual std::vector<std::string> shards() const = 0;  ///< file names of the shards that are used
  virtual const std::map<std::string, std::string>& weight_map() const = 0;  ///< tensor to shard file name
  /// Files that the tool carries along as they are, by name: config.json, generation_config.json,
  /// tokenizer.json, tokenizer_config.json, special_tokens_map.json, added_tokens.json, vocab.json,
  /// merges.txt, tokenizer.model, chat_template.jinja (those that exist).
  virtual std::vector<std::string> side_files() const = 0;
  /// Weight files that nothing names ("consolidated.safetensors"), and other remarks.
  virtual std::vector<std::string> remarks() const = 0;
  /// Closes one of shards(), as SafetensorsFile::close: a file that is deleted keeps its place on the disk
  /// for as long as it is open.
  virtual void close(const std::string& shard) = 0;
};

struct HfWriteOptions {
  uint64_t max_shard_bytes = 5'000'000'000;  ///< of tensor data; a larger tensor has a shard of its own
  /// The shard file of each tensor, as HfFolder::weight_map gives it, so that a round trip keeps the
  /// original's split; empty to split by size.
  std::map<std::string, std::string> shard_of;
  std::function<Status(uint64_t bytes_so_far)> progress;
};
/// One weight file: its name, and its tensors in the order in which they lie (file_layout).
struct HfShard {
  std::string file;
  std::vector<TensorInfo> tensors;
};
/// Which tensor goes to which file. Errors: hf_folder_c1, X1, as write_hf_weights.
Result<std::vector<HfShard>> hf_shards(const std::vector<TensorInfo>& tensors, const HfWriteOptions& options);
/// Writes model.safetensors.index.json, unless the one file is model.safetensors. Errors: io.
Status write_hf_index(const FileSystem& files, const std::string& folder, const std::vector<HfShard>& shards);

/// Writes the tensors as model.safetensors, or as shards with model.safetensors.index.json. Tensors fill the
/// shards in canonical order; inside a shard they lie as file_layout has it, so that equal tensors make equal
/// files whatever order they came in. The folder must exist (a staging folder). Side files are the caller's
/// business.
/// Errors: io; what the source returns; hf_folder_c1 a tensor without a shard in shard_of; X1 a shard name
/// that is not a plain file name.
Status write_hf_weights(const FileSystem& files, const std::string& folder, const TensorSource& source,
                        const HfWriteOptions& options = {});

}  // namespace tandem
