#include "convert/slice.h"

#include <algorithm>
#include <charconv>

#include "base/signals.h"
#include "base/staging.h"
#include "convert/give_way.h"
#include "convert/match_report.h"
#include "convert/open_model.h"
#include "convert/side_files.h"
#include "convert/tensor_view.h"
#include "formats/hf_folder/names.h"

namespace tandem {
namespace {

constexpr std::string_view kLayers = "model.layers.";
constexpr std::string_view kMtpKeys[] = {"num_nextn_predict_layers", "num_mtp_layers"};

/// What stays of a checkpoint, in numbers.
struct Cut {
  uint64_t begin, end, of;  ///< layers that stay, of how many
  uint64_t mtp;             ///< layers behind them
  bool with_mtp;
};

/// The layer that a name belongs to: "model.layers.12.mlp.up_proj.weight" to 12.
std::optional<uint64_t> layer_of(std::string_view name) {
  if (!name.starts_with(kLayers)) return {};
  uint64_t layer = 0;
  const char* const digits = name.data() + kLayers.size();
  const auto [end, error] = std::from_chars(digits, name.data() + name.size(), layer);
  if (error != std::errc{} || end == name.data() + name.size() || *end != '.') return {};
  return layer;
}

/// The number of a layer in the slice; nothing for one that is left out.
std::optional<uint64_t> new_number(uint64_t layer, const Cut& cut) {
  if (layer >= cut.of)
    return cut.with_mtp ? std::optional(layer - cut.of + cut.end - cut.begin) : std::nullopt;
  return layer >= cut.begin && layer < cut.end ? std::optional(layer - cut.begin) : std::nullopt;
}

std::optional<std::string> new_name(const std::string& name, const Cut& cut) {
  const std::optional<uint64_t> layer = layer_of(name);
  if (!layer) return name;
  const std::optional<uint64_t> number = new_number(*layer, cut);
  if (!number) return {};
  return fmt::format("{}{}{}", kLayers, *number, name.substr(name.find('.', kLayers.size())));
}

Result<Cut> cut_of(const OpenedModel& source, const Model& model, const SliceOptions& options) {
  Cut cut{options.layers.begin.value_or(0), options.layers.end.value_or(model.num_hidden_layers),
          model.num_hidden_layers, 0, options.with_mtp};
  if (cut.begin >= cut.end || cut.end > cut.of)
    return usage("slice_c1", "layers {} to {} of a model of {}: expected 0 <= first < end <= {}", cut.begin,
                 cut.end, cut.of, cut.of)
        .at(source.path);
  for (const std::string_view key : kMtpKeys)
    if (const auto found = source.config.find(key);
        found != source.config.end() && found->is_number_unsigned())
      cut.mtp = found->get<uint64_t>();
  return cut;
}

/// Texts in the config that name a layer by its number.
void layers_in_words(const Json& json, const std::string& key, std::vector<std::string>& lines) {
  if (json.is_string() && json.get_ref<const std::string&>().find("layers.") != std::string::npos)
    lines.push_back(fmt::format("{}: \"{}\"", key, json.get<std::string>()));
  if (!json.is_structured()) return;
  for (const auto& [name, value] : json.items())
    layers_in_words(value, json.is_array() ? key : (key.empty() ? name : key + "." + name), lines);
}

/// The keys that the slice changes.
Result<std::map<std::string, Json>> changed_keys(const OpenedModel& source, const Cut& cut) {
  std::map<std::string, Json> changed{{"num_hidden_layers", cut.end - cut.begin}};
  const Json& config = source.config;
  if (const auto dense = config.find("first_k_dense_replace"); dense != config.end())
    changed["first_k_dense_replace"] = std::clamp(dense->get<uint64_t>(), cut.begin, cut.end) - cut.begin;
  for (const std::string_view key : kMtpKeys)
    if (cut.mtp > 0 && !cut.with_mtp && config.contains(key)) changed[std::string(key)] = 0;
  if (cut.begin > 0) {
    std::vector<std::string> lines;
    layers_in_words(config, "", lines);
    if (!lines.empty())
      return all_problems("slice_c2", "the slice numbers its layers anew, and config.json names some", lines)
          .at(join(source.path, "config.json"))
          .because("a slice that begins at layer 0 keeps the numbers");
  }
  std::erase_if(changed, [&](const auto& entry) {
    const auto before = config.find(entry.first);
    return before != config.end() && *before == entry.second;
  });
  return changed;
}

/// The source's split, its shards numbered anew.
std::map<std::string, std::string> shards_of(const HfFolder& folder, const Cut& cut) {
  std::map<std::string, std::string> shard_of, renamed;
  for (const TensorInfo& info : folder.tensors()) {
    const std::optional<std::string> name = new_name(info.name, cut);
    if (!name) continue;
    shard_of[*name] = folder.weight_map().at(info.name);
    renamed[shard_of[*name]];
  }
  size_t number = 0;
  for (auto& [shard, name] : renamed)
    name = renamed.size() == 1 ? kSingleFile : shard_name(++number, renamed.size());
  for (auto& [name, shard] : shard_of) shard = renamed.at(shard);
  return shard_of;
}

Status fits_its_config(const Json& config, const TensorSource& tensors, const SliceOptions& options) {
  TANDEM_TRY(const Model model, make_model(config, {options.accepted_keys}));
  const std::vector<std::string> lines = problems(match(model.rules, tensors));
  if (lines.empty()) return {};
  return bug("", "{}", all_problems("convert_c1", "the slice does not fit its config", lines).text);
}

Status write_slice(const FileSystem& files, const std::string& folder, const OpenedModel& source,
                   const TensorView& tensors, const Cut& cut, const SliceOptions& options,
                   const SliceReport& report) {
  HfWriteOptions write;
  if (options.max_shard_bytes)
    write.max_shard_bytes = *options.max_shard_bytes;
  else
    write.shard_of = shards_of(*source.folder, cut);
  write.progress = [&](uint64_t bytes) -> Status {
    if (interrupted()) return unavailable("", "stopped by a signal; nothing was written");
    return options.progress ? options.progress(std::min(bytes, report.bytes), report.bytes) : Status{};
  };
  TANDEM_CHECK(write_hf_weights(files, folder, tensors, write));
  for (const auto& [name, content] : source.side_files) {
    std::string text = content;
    if (name == "config.json")
      for (const auto& [key, value] : report.config) {
        TANDEM_TRY(text, with_key(text, key, value));
      }
    TANDEM_CHECK(write_text(files, join(folder, name), text));
  }
  return {};
}

Result<OpenedModel> open_whole(const FileSystem& files, const std::string& path,
                               const SliceOptions& options) {
  TANDEM_TRY(OpenedModel opened, open_model(files, path, {.limits = options.limits}));
  if (opened.format != ModelFormat::hf_folder)
    return unsupported("", "a {}: slices are cut from Hugging Face folders", name(opened.format))
        .at(path)
        .because(is_tensorflow(opened.format) ? "tandem convert makes one of it"
                                              : "name the folder with its config.json");
  return opened;
}

}  // namespace

Result<LayerRange> layer_range(std::string_view text) {
  const auto number = [](std::string_view digits, std::optional<uint64_t>& value) {
    if (digits.empty()) return true;
    uint64_t read = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), read);
    value = read;
    return error == std::errc{} && end == digits.data() + digits.size();
  };
  const size_t colon = text.find(':');
  LayerRange range;
  if (colon == text.npos || !number(text.substr(0, colon), range.begin) ||
      !number(text.substr(colon + 1), range.end))
    return usage("slice_c1", "--layers {}: expected FIRST:END, as 0:4 for layers 0 to 3", text);
  return range;
}

Json to_json(const SliceReport& report) {
  return Json{{"architecture", report.architecture},
              {"layers", {report.begin, report.end}},
              {"of", report.of},
              {"tensors", report.tensors},
              {"bytes", report.bytes},
              {"shards", report.shards},
              {"mtp", report.mtp},
              {"kept_mtp", report.kept_mtp},
              {"config", report.config},
              {"remarks", report.remarks}};
}

Result<SliceReport> slice_model(const FileSystem& files, const std::string& source,
                                const std::string& destination, const SliceOptions& options) {
  TANDEM_TRY(const OpenedModel opened, open_whole(files, source, options));
  TANDEM_CHECK(may_give_way(files, destination, std::span(&source, 1), options.force));
  TANDEM_TRY(const Model model, model_of(opened, {options.accepted_keys}));
  const Match found = match(model.rules, *opened.folder);
  if (const std::vector<std::string> lines = problems(found); !lines.empty())
    return all_problems("convert_c1", "the checkpoint does not fit its config", lines).at(source);
  TANDEM_TRY(const Cut cut, cut_of(opened, model, options));

  SliceReport report{model.architecture, cut.begin, cut.end,         cut.of, 0, 0, {}, {},
                     cut.with_mtp,       {},        opened.remarks()};
  TANDEM_TRY(report.config, changed_keys(opened, cut));
  TensorView tensors;
  for (const TensorInfo& info : opened.folder->tensors()) {
    if (const auto layer = layer_of(info.name); layer && *layer >= cut.of) {
      const std::string module = fmt::format("{}{}", kLayers, *layer);
      if (report.mtp.empty() || report.mtp.back() != module) report.mtp.push_back(module);
    }
    if (const auto name = new_name(info.name, cut))
      tensors.add({*name, info.dtype, info.shape}, *opened.folder, info.name);
  }
  tensors.sort();
  Json config = opened.config;
  for (const auto& [key, value] : report.config) config[key] = value;
  TANDEM_CHECK(fits_its_config(config, tensors, options));
  report.tensors = tensors.tensors().size();
  TANDEM_TRY(report.bytes, total_bytes(tensors));

  TANDEM_TRY(StagedFolder staged, StagedFolder::make(files, destination, options.force));
  TANDEM_CHECK(write_slice(files, staged.path(), opened, tensors, cut, options, report));
  TANDEM_TRY(const auto written, files.list(staged.path()));
  for (const std::string& name : written)
    if (is_safetensors_name(name)) report.shards.push_back(name);
  TANDEM_CHECK(staged.commit(options.force));
  return report;
}

}  // namespace tandem
