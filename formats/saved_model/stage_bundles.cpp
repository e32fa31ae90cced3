#include "formats/saved_model/stage_bundles.h"

namespace tandem {

Result<StageManifest> read_stages(const FileSystem& files, const std::string& folder) {
  const std::string path = join(folder, kStagesFile);
  TANDEM_TRY(const std::string text, read_text(files, path));
  auto manifest = stages_from_text(text);
  if (!manifest.ok()) return std::move(manifest).error().at(path);
  return manifest;
}

Result<std::unique_ptr<TensorBundle>> open_stage_bundles(const FileSystem& files, const std::string& folder,
                                                         const StageManifest& manifest) {
  std::vector<std::unique_ptr<TensorBundle>> bundles;
  for (size_t stage = 0; stage < manifest.stages.size(); ++stage) {
    TANDEM_TRY(bundles.emplace_back(),
               TensorBundle::open(files, join(folder, manifest.folder(stage) + "/variables/variables")));
  }
  return TensorBundle::join(std::move(bundles));
}

}  // namespace tandem
