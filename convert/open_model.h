#pragma once
// A model on disk, whichever side it lies on: what inspect, map, convert and verify start from.

#include <memory>
#include <optional>

#include "arch/architecture.h"
#include "convert/record.h"
#include "formats/hf_folder/hf_folder.h"
#include "formats/saved_model/stage_manifest.h"
#include "formats/tensor_bundle/tensor_bundle.h"

namespace tandem {

/// The one list of what a path can be.
enum class ModelFormat {
  hf_folder,
  safetensors,
  saved_model,
  staged,  ///< several SavedModels of consecutive layers (formats/saved_model/stage_manifest.h)
  checkpoint
};
std::string_view name(ModelFormat format);  ///< "Hugging Face folder", ...
inline bool is_tensorflow(ModelFormat format) {
  return format == ModelFormat::saved_model || format == ModelFormat::staged ||
         format == ModelFormat::checkpoint;
}

/// What lies at a path, judged by file names only (its bytes are checked when it is opened).
/// Errors: missing; open_c1 a folder or file that is none of them; T7 a folder that is two of them.
Result<ModelFormat> detect(const FileSystem& files, const std::string& path);

/// Names of the files that belong to a TensorFlow checkpoint when they lie beside it: config.json, ...
std::span<const std::string_view> side_file_names();

/// A model, opened. Movable; sources stay valid while it lives.
struct OpenedModel {
  ModelFormat format;
  std::string path;
  std::unique_ptr<HfFolder> folder;               ///< Hugging Face side, or null
  std::unique_ptr<TensorBundle> bundle;           ///< TensorFlow side, or null
  std::map<std::string, std::string> side_files;  ///< name to content: config.json, tokenizer.json, ...
  std::optional<Record> record;                   ///< of a converted model
  std::optional<StageManifest> stages;            ///< of a model in stages, whose bundle is all of theirs
  Json config;                                    ///< null if there is none

  const TensorSource& tensors() const {
    if (folder) return *folder;
    return *bundle;
  }
  std::vector<std::string> remarks() const;
};

/// Opens a model of any format. `options` are for the Hugging Face side: limits of headers, and whether a
/// folder with a config alone will do.
Result<OpenedModel> open_model(const FileSystem& files, const std::string& path,
                               const HfFolder::Options& options = {});

/// make_model for an opened model. Errors: open_c2 there is no config.json.
Result<Model> model_of(const OpenedModel& opened, const ArchOptions& options);

}  // namespace tandem
