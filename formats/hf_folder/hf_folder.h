#pragma once
// A Hugging Face checkpoint folder: config.json, model.safetensors or its shards with model.safetensors.index.json, tokenizer files.

#include <functional>
#include <memory>

#include "base/json.h"
#include "formats/safetensors/safetensors.h"

namespace tandem {

/// An opened folder: all its tensors as one source. Immutable; the files stay open.
class HfFolder : public TensorSource {
 public:
  /// `path` is a folder, or a single .safetensors file (then there is no config).
  /// With `headers_only_allowed`, a folder that has config.json but no weights opens with no tensors.
  /// Errors: missing; X1 X2 X6 for shard paths; X4/C10 with every difference between index and shards in one report;
  /// P16 for a file whose bytes are of another format than its name says.
  struct Options {
    SafetensorsLimits limits;
    bool allow_no_weights = false;
  };
  static Result<std::unique_ptr<HfFolder>> open(const FileSystem& files, const std::string& path, const Options& options);
  virtual const std::string& path() const = 0;
  virtual const std::string& config_text() const = 0;  ///< config.json as written, or empty
  virtual const Json& config() const = 0;
  virtual bool has_weights() const = 0;
  virtual std::vector<std::string> shards() const = 0;  ///< file names of the shards that are used
  virtual const std::map<std::string, std::string>& weight_map() const = 0;  ///< tensor to shard file name
  /// Files that the tool carries along as they are, by name: config.json, generation_config.json, tokenizer.json, tokenizer_config.json,
  /// special_tokens_map.json, added_tokens.json, vocab.json, merges.txt, tokenizer.model, chat_template.jinja (those that exist).
  virtual std::vector<std::string> side_files() const = 0;
  /// Weight files that nothing names ("consolidated.safetensors"), and other remarks.
  virtual std::vector<std::string> remarks() const = 0;
};

/// Writes tensors (in canonical order) as one file, or as shards of at most max_shard_bytes with an index.
/// When `shard_of` is given it names the shard file of each tensor (so that a round trip keeps the original's split).
struct HfWriteOptions {
  uint64_t max_shard_bytes = 5'000'000'000;
  std::map<std::string, std::string> shard_of;
  std::function<Status(uint64_t bytes_so_far)> progress;
};
/// The folder must exist (a staging folder). Side files are the caller's business. Errors: io.
Status write_hf_weights(const FileSystem& files, const std::string& folder, const TensorSource& source, const HfWriteOptions& options = {});

}  // namespace tandem
