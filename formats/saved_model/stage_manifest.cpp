#include "formats/saved_model/stage_manifest.h"

namespace tandem {
namespace {

constexpr int kVersion = 1;
constexpr size_t kMaxStages = 10'000;

Error not_stages(std::string what) {
  return corrupt("stages_c3", "{} is not of this tool: {}", kStagesFile, what);
}

bool is_size(const Json& json) { return json.is_number_unsigned(); }

Result<StageEntry> entry_from_json(const Json& json, size_t index) {
  const auto wrong = [&](std::string_view what) {
    return not_stages(fmt::format("stages[{}] {}", index, what));
  };
  for (const char* key : {"folder", "layers", "bytes", "takes", "gives", "hidden_states"})
    if (!json.is_object() || !json.contains(key)) return wrong(fmt::format("has no \"{}\"", key));
  const Json &layers = json["layers"], &hidden = json["hidden_states"];
  if (!layers.is_array() || layers.size() != 2 || !is_size(layers[0]) || !is_size(layers[1]))
    return wrong("has layers that are no two numbers");
  if (!is_size(json["bytes"])) return wrong("has bytes that are no number");
  if (!(index == 0 ? hidden.is_null() : hidden.is_string()))
    return wrong("takes ids if it is the first, and else hidden_states with a name");
  return StageEntry{layers[0].get<uint64_t>(), layers[1].get<uint64_t>(), json["bytes"].get<uint64_t>(),
                    hidden.is_null() ? std::string() : hidden.get<std::string>()};
}

}  // namespace

std::string StageManifest::folder(size_t stage) const {
  return fmt::format("stage-{}-of-{}", stage, stages.size());
}

Json to_json(const StageManifest& manifest) {
  Json stages = Json::array();
  for (size_t i = 0; i < manifest.stages.size(); ++i) {
    const StageEntry& stage = manifest.stages[i];
    stages.push_back(Json{{"folder", manifest.folder(i)},
                          {"layers", {stage.first_layer, stage.end_layer}},
                          {"bytes", stage.bytes},
                          {"takes", i == 0 ? "input_ids" : "hidden_states"},
                          {"gives", i + 1 == manifest.stages.size() ? "logits" : "hidden_states_out"},
                          {"hidden_states", i == 0 ? Json() : Json(stage.hidden_states)}});
  }
  return Json{
      {"tandem_stages", kVersion}, {"architecture", manifest.architecture}, {"stages", std::move(stages)}};
}

std::string to_text(const StageManifest& manifest) { return to_json(manifest).dump(1) + "\n"; }

Result<StageManifest> stages_from_text(std::string_view text) {
  TANDEM_TRY(const Json json, parse_json(text));
  if (!json.is_object() || !json.contains("tandem_stages") || !json.contains("architecture") ||
      !json["architecture"].is_string() || !json.contains("stages") || !json["stages"].is_array())
    return not_stages("tandem_stages, architecture or stages is missing");
  if (json["tandem_stages"] != kVersion)
    return not_stages(
        fmt::format("version {:.20}, this program knows {}", json["tandem_stages"].dump(), kVersion));
  const Json& entries = json["stages"];
  if (entries.empty() || entries.size() > kMaxStages)
    return not_stages(fmt::format("{} stages, expected 1 to {}", entries.size(), kMaxStages));
  StageManifest manifest{json["architecture"].get<std::string>(), {}};
  for (const Json& entry : entries) {
    TANDEM_TRY(StageEntry stage, entry_from_json(entry, manifest.stages.size()));
    const uint64_t before = manifest.stages.empty() ? 0 : manifest.stages.back().end_layer;
    if (stage.first_layer != before || stage.end_layer <= before)
      return not_stages(fmt::format("stages[{}] has layers {} to {} after {}", manifest.stages.size(),
                                    stage.first_layer, stage.end_layer, before));
    manifest.stages.push_back(std::move(stage));
  }
  // Folders and what passes between them follow from the rest: nothing else may stand there.
  if (to_json(manifest) != json) return not_stages("folder, takes or gives, or a field that is not known");
  return manifest;
}

}  // namespace tandem
