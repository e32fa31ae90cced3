#include "formats/saved_model/checks.h"
#include "formats/saved_model/saved_model.h"

namespace tandem {
namespace {

constexpr uint64_t kMaxAssetBytes = 64ull << 20;  // together

Result<std::string> proto_path(const FileSystem& files, const std::string& folder) {
  const std::string binary = join(folder, "saved_model.pb"), text = join(folder, "saved_model.pbtxt");
  TANDEM_TRY(const PathKind binary_kind, files.kind(binary));
  TANDEM_TRY(const PathKind text_kind, files.kind(text));
  if (binary_kind != PathKind::absent && text_kind != PathKind::absent)
    return corrupt("T7",
                   "saved_model.pb and saved_model.pbtxt both exist, and "
                   "may differ")
        .at(folder)
        .because("remove one of them");
  if (text_kind != PathKind::absent)
    return unsupported("T7", "a SavedModel in text form is not read")
        .at(text)
        .because("save it again in binary form");
  if (binary_kind == PathKind::absent)
    return missing("", "this file does not exist").at(binary).because("not a SavedModel folder?");
  return binary;
}

Result<std::map<std::string, std::string>> read_assets(const FileSystem& files, const std::string& folder,
                                                       const tensorflow::SavedModel& model) {
  std::map<std::string, std::string> assets;
  uint64_t room = kMaxAssetBytes;
  for (const auto& meta : model.meta_graphs()) {
    for (const auto& asset : meta.asset_file_def()) {
      if (assets.contains(asset.filename())) continue;
      auto path = path_inside(files, join(folder, "assets"), asset.filename());
      if (!path.ok()) {
        Error error = std::move(path).error();
        error.rule = "T7";
        return error;
      }
      TANDEM_TRY(std::string content, read_text(files, path.value(), room));
      room -= content.size();
      assets.emplace(asset.filename(), std::move(content));
    }
  }
  return assets;
}

}  // namespace

Result<SavedModelFolder> open_saved_model(const FileSystem& files, const std::string& folder) {
  SavedModelFolder opened;
  TANDEM_TRY(const std::string path, proto_path(files, folder));
  {
    auto bytes = read_text(files, path, kMaxSavedModelBytes);
    if (!bytes.ok()) {
      Error error = std::move(bytes).error();
      if (error.kind == ErrorKind::corrupt) error.rule = "T1";
      return error;
    }
    auto model = parse_saved_model(bytes.value());
    if (!model.ok()) return std::move(model).error().at(path);
    opened.proto = std::move(model).value();
  }
  if (auto fine = check(opened.proto); !fine.ok()) {
    Error error = std::move(fine).error();
    error.where = error.where.empty() ? path : path + ", " + error.where;
    return error;
  }
  TANDEM_TRY(opened.assets, read_assets(files, folder, opened.proto));

  opened.variables_prefix = join(join(folder, "variables"), "variables");
  const std::string index = opened.variables_prefix + ".index";
  TANDEM_TRY(const PathKind kind, files.kind(index));
  if (kind != PathKind::file)
    return corrupt("C26",
                   "this file does not exist, and with it the values of "
                   "all variables")
        .at(index)
        .because("TensorFlow's C library would load such a model without a word");
  return opened;
}

}  // namespace tandem
