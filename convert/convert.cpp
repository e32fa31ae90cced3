#include "convert/convert.h"

#include "convert/direction.h"
#include "convert/match_report.h"

namespace tandem {
namespace {

/// The one list of targets.
constexpr std::pair<std::string_view, ConvertTarget> kTargets[] = {
    {"saved_model", ConvertTarget::saved_model},
    {"checkpoint", ConvertTarget::checkpoint},
    {"safetensors", ConvertTarget::safetensors},
};

Json to_json(const ConvertedTensor& tensor) {
  return Json{{"name", tensor.name},
              {"from", tensor.from},
              {"from_dtype", row(tensor.from_dtype).long_name},
              {"dtype", row(tensor.dtype).long_name},
              {"shape", tensor.shape},
              {"steps", tensor.steps},
              {"sha256", tensor.sha256},
              {"rounded", tensor.counts.rounded},
              {"flushed", tensor.counts.flushed}};
}

/// The real path of an input; of a checkpoint's prefix, that of its folder. Nothing if neither is there.
std::optional<std::string> real_path(const FileSystem& files, const std::string& path) {
  if (auto resolved = files.resolve(path); resolved.ok()) return std::move(resolved).value();
  const size_t slash = path.rfind('/');
  auto folder = files.resolve(slash == path.npos ? "." : path.substr(0, slash + 1));
  return folder.ok() ? std::optional(std::move(folder).value()) : std::nullopt;
}

/// --force must cost neither what is being read nor things that are no model: an output that exists gives way
/// only if it is a model or an empty folder, and holds no input.
Status may_give_way(const FileSystem& files, const std::string& source, const std::string& destination,
                    const ConvertOptions& options) {
  TANDEM_TRY(const PathKind kind, files.kind(destination));
  const auto output = files.resolve(destination);
  if (kind == PathKind::absent || !output.ok()) return {};
  for (const std::string* input : {&source, &options.like, &options.map_file}) {
    const auto real = input->empty() ? std::nullopt : real_path(files, *input);
    if (real && (*real == output.value() || real->starts_with(output.value() + "/")))
      return usage("convert_c4", "the output holds {}, which is read", *input)
          .at(destination)
          .because("name another output");
  }
  if (!options.force) return {};  // then it stays, and StagedFolder says so
  if (kind == PathKind::directory) {
    TANDEM_TRY(const auto names, files.list(destination));
    const auto found = detect(files, destination);
    if (names.empty() || found.ok() || found.error().rule == "T7") return {};
  }
  return exists("convert_c7", "the output exists and is no model: --force replaces models only")
      .at(destination)
      .because("remove it, or name another output");
}

}  // namespace

Result<ConvertTarget> target_named(std::string_view name) {
  for (const auto& [spelling, target] : kTargets)
    if (spelling == name) return target;
  return usage("convert_c4", "--to {}: expected saved_model, checkpoint or safetensors", name);
}

Json to_json(const ConvertReport& report) {
  Json tensors = Json::array();
  for (const ConvertedTensor& tensor : report.tensors) tensors.push_back(to_json(tensor));
  return Json{{"architecture", report.architecture},
              {"from", report.from},
              {"to", report.to},
              {"bytes", report.bytes},
              {"remarks", report.remarks},
              {"tensors", std::move(tensors)}};
}

Status distinct_names(const TensorSource& source) {
  std::map<std::string, std::string> seen;
  std::vector<std::string> lines;
  for (const TensorInfo& info : source.tensors()) {
    std::string folded = info.name;
    for (char& c : folded)
      if (c >= 'A' && c <= 'Z') c += 'a' - 'A';
    const auto [other, is_new] = seen.emplace(std::move(folded), info.name);
    if (!is_new) lines.push_back(fmt::format("{} and {}", other->second, info.name));
  }
  if (lines.empty()) return {};
  return all_problems("R4", "names that differ in case only", lines);
}

Status no_overflow(const std::vector<ConvertedTensor>& tensors) {
  std::vector<std::string> lines;
  for (const ConvertedTensor& tensor : tensors)
    if (tensor.counts.overflowed)
      lines.push_back(fmt::format("{}: {} finite values do not fit {}", tensor.name, tensor.counts.overflowed,
                                  row(tensor.dtype).long_name));
  if (lines.empty()) return {};
  return all_problems("convert_c2", "values overflow", lines).because("bfloat16 and float32 have the range");
}

Result<ConvertReport> convert(const FileSystem& files, const std::string& source,
                              const std::string& destination, const ConvertOptions& options) {
  TANDEM_TRY(OpenedModel opened, open_model(files, source, {.limits = options.limits}));
  const bool back = is_tensorflow(opened.format);
  const bool to_tensorflow =
      options.to.value_or(back ? ConvertTarget::safetensors : ConvertTarget::saved_model) !=
      ConvertTarget::safetensors;
  if (back == to_tensorflow)
    return usage("convert_c4", "a {} is already on that side: --to does not fit", name(opened.format))
        .at(source);
  TANDEM_CHECK(may_give_way(files, source, destination, options));
  return back ? convert_back(files, std::move(opened), destination, options)
              : convert_forward(files, std::move(opened), destination, options);
}

}  // namespace tandem
