#include "convert/open_model.h"

#include "formats/saved_model/saved_model.h"
#include "formats/saved_model/stage_bundles.h"

namespace tandem {
namespace {

bool is_there(const FileSystem& files, const std::string& path) {
  const Result<PathKind> kind = files.kind(path);
  return kind.ok() && kind.value() != PathKind::absent;
}

/// A hub cache keeps its models one or two folders further down.
std::string hint_for_hub_cache(const FileSystem& files, const std::string& path) {
  for (const std::string below : {"snapshots", ""}) {
    const bool is_cache = !below.empty() || path == "snapshots" || path.ends_with("/snapshots");
    const auto names = files.list(join(path, below));
    if (is_cache && names.ok() && !names.value().empty())
      return fmt::format("a hub cache: name the folder of a revision, as snapshots/{}",
                         names.value().front());
  }
  return {};
}

Result<ModelFormat> detect_folder(const FileSystem& files, const std::string& path) {
  const bool staged = is_there(files, join(path, kStagesFile));
  const bool saved_model =
      is_there(files, join(path, "saved_model.pb")) || is_there(files, join(path, "saved_model.pbtxt"));
  const bool safetensors = is_there(files, join(path, "model.safetensors")) ||
                           is_there(files, join(path, "model.safetensors.index.json"));
  const bool checkpoint = is_there(files, join(path, "checkpoint"));
  if (safetensors && (saved_model || staged || checkpoint))
    return corrupt("T7", "the folder holds a Hugging Face checkpoint and a TensorFlow model")
        .at(path)
        .because("two conversions into one folder; name one with its files alone");
  if (staged) return ModelFormat::staged;
  if (saved_model) return ModelFormat::saved_model;
  if (safetensors) return ModelFormat::hf_folder;
  if (checkpoint) return ModelFormat::checkpoint;
  if (is_there(files, join(path, "config.json"))) return ModelFormat::hf_folder;
  TANDEM_TRY(const std::vector<std::string> names, files.list(path));
  for (const std::string& name : names) {
    if (name.ends_with(".safetensors")) return ModelFormat::hf_folder;
    if (name.ends_with(".index")) return ModelFormat::checkpoint;
  }
  return unsupported("open_c1",
                     "the folder holds no model that is known: no config.json, no .safetensors, no "
                     "saved_model.pb, no TensorFlow checkpoint")
      .at(path)
      .because(hint_for_hub_cache(files, path));
}

/// Side files that are kept beside a checkpoint of ours, by name.
constexpr std::string_view kSideFiles[] = {"config.json",
                                           "generation_config.json",
                                           "tokenizer.json",
                                           "tokenizer_config.json",
                                           "special_tokens_map.json",
                                           "added_tokens.json",
                                           "vocab.json",
                                           "merges.txt",
                                           "tokenizer.model",
                                           "chat_template.jinja",
                                           "chat_template.json",
                                           kRecordFile,
                                           kContractFile};

Result<std::map<std::string, std::string>> read_side_files(const FileSystem& files,
                                                           const std::string& folder) {
  std::map<std::string, std::string> contents;
  for (const std::string_view name : kSideFiles) {
    if (!is_there(files, join(folder, name))) continue;
    TANDEM_TRY(contents[std::string(name)], read_text(files, join(folder, name)));
  }
  return contents;
}

std::string parent_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status open_hugging_face(const FileSystem& files, OpenedModel& opened, const HfFolder::Options& options) {
  TANDEM_TRY(opened.folder, HfFolder::open(files, opened.path, options));
  if (opened.format == ModelFormat::safetensors) return {};
  for (const std::string& name : opened.folder->side_files()) {
    TANDEM_TRY(opened.side_files[name], read_text(files, join(opened.path, name)));
  }
  opened.config = opened.folder->config();
  return {};
}

/// The folder keeps the side files of the whole; what each stage has of its own is for who loads it.
Status open_stages(const FileSystem& files, OpenedModel& opened) {
  TANDEM_TRY(opened.stages, read_stages(files, opened.path));
  for (size_t stage = 0; stage < opened.stages->stages.size(); ++stage) {
    TANDEM_TRY(const SavedModelFolder folder,
               open_saved_model(files, join(opened.path, opened.stages->folder(stage))));
    (void)folder;  // its graph has been checked
  }
  TANDEM_TRY(opened.bundle, open_stage_bundles(files, opened.path, *opened.stages));
  TANDEM_TRY(opened.side_files, read_side_files(files, opened.path));
  return {};
}

Status open_tensorflow(const FileSystem& files, OpenedModel& opened) {
  if (opened.format == ModelFormat::staged) {
    TANDEM_CHECK(open_stages(files, opened));
  } else if (opened.format == ModelFormat::saved_model) {
    TANDEM_TRY(SavedModelFolder folder, open_saved_model(files, opened.path));
    opened.side_files = std::move(folder.assets);
    TANDEM_TRY(opened.bundle, TensorBundle::open(files, folder.variables_prefix));
  } else {
    TANDEM_TRY(opened.bundle, TensorBundle::open(files, opened.path));
    TANDEM_TRY(const PathKind kind, files.kind(opened.path));
    TANDEM_TRY(opened.side_files,
               read_side_files(files, kind == PathKind::directory ? opened.path : parent_of(opened.path)));
  }
  if (const auto text = opened.side_files.find("config.json"); text != opened.side_files.end()) {
    auto config = parse_json(text->second);
    if (!config.ok()) return std::move(config).error().at(join(opened.path, "config.json"));
    opened.config = std::move(config).value();
  }
  if (const auto text = opened.side_files.find(std::string(kRecordFile)); text != opened.side_files.end()) {
    auto record = record_from_text(text->second);
    if (!record.ok()) return std::move(record).error().at(join(opened.path, kRecordFile));
    opened.record = std::move(record).value();
  }
  return {};
}

const char* hint_for_config(const OpenedModel& opened) {
  if (opened.format == ModelFormat::safetensors)
    return "a model is described by its config: name the folder that holds both";
  if (opened.format == ModelFormat::saved_model && opened.side_files.contains(std::string(kContractFile)))
    return "one stage of a model? name the folder with stages.json";
  return "a model is described by its config";
}

}  // namespace

std::span<const std::string_view> side_file_names() { return kSideFiles; }

std::string_view name(ModelFormat format) {
  switch (format) {
    case ModelFormat::hf_folder:
      return "Hugging Face folder";
    case ModelFormat::safetensors:
      return "safetensors file";
    case ModelFormat::saved_model:
      return "SavedModel";
    case ModelFormat::staged:
      return "SavedModel in stages";
    case ModelFormat::checkpoint:
      return "TensorFlow checkpoint";
  }
  return {};
}

Result<ModelFormat> detect(const FileSystem& files, const std::string& path) {
  TANDEM_TRY(const PathKind kind, files.kind(path));
  if (kind == PathKind::directory) return detect_folder(files, path);
  if (kind == PathKind::other) return unsafe("X6", "not a regular file or folder").at(path);
  if (is_there(files, path + ".index")) return ModelFormat::checkpoint;
  if (kind == PathKind::absent)
    return missing("", "there is no such file or folder").at(path.empty() ? "\"\"" : path);
  if (path.ends_with(".index") || path.find(".data-") != std::string::npos) return ModelFormat::checkpoint;
  if (path.ends_with(".safetensors")) return ModelFormat::safetensors;
  return unsupported("open_c1", "the file is no .safetensors file and no part of a TensorFlow checkpoint")
      .at(path);
}

std::vector<std::string> OpenedModel::remarks() const {
  return folder ? folder->remarks() : std::vector<std::string>{};
}

Result<OpenedModel> open_model(const FileSystem& files, const std::string& path,
                               const HfFolder::Options& options) {
  OpenedModel opened;
  opened.path = path;
  while (opened.path.size() > 1 && opened.path.ends_with('/')) opened.path.pop_back();
  TANDEM_TRY(opened.format, detect(files, opened.path));
  TANDEM_CHECK(is_tensorflow(opened.format) ? open_tensorflow(files, opened)
                                            : open_hugging_face(files, opened, options));
  return opened;
}

Result<Model> model_of(const OpenedModel& opened, const ArchOptions& options) {
  if (opened.config.is_null())
    return missing("open_c2", "there is no config.json").at(opened.path).because(hint_for_config(opened));
  auto model = make_model(opened.config, options);
  if (model.ok()) return model;
  Error error = std::move(model).error();
  error.where = join(opened.path, "config.json");  // an architecture does not know which folder's
  return error;
}

}  // namespace tandem
