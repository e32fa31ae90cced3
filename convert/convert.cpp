#include "convert/convert.h"

#include <algorithm>
#include <thread>

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

constexpr std::string_view kPlaces[] = {"hard-link", "reflink", "copy"};  // as enum Place

Json to_json(const ConvertedTensor& tensor) {
  return Json{{"name", tensor.name},
              {"from", tensor.from},
              {"from_dtype", row(tensor.from_dtype).long_name},
              {"dtype", row(tensor.dtype).long_name},
              {"shape", tensor.shape},
              {"steps", tensor.steps},
              {"crc32c", fmt::format("{:08x}", tensor.crc32c)},
              {"rounded", tensor.counts.rounded},
              {"flushed", tensor.counts.flushed}};
}

}  // namespace

Result<ConvertTarget> target_named(std::string_view name) {
  for (const auto& [spelling, target] : kTargets)
    if (spelling == name) return target;
  return usage("convert_c4", "--to {}: expected saved_model, checkpoint or safetensors", name);
}

std::string_view place_name(Place place) { return kPlaces[static_cast<size_t>(place)]; }

std::optional<Place> place_named(std::string_view name) {
  for (size_t i = 0; i < std::size(kPlaces); ++i)
    if (kPlaces[i] == name) return static_cast<Place>(i);
  return {};
}

unsigned default_threads() { return std::clamp(std::thread::hardware_concurrency(), 1u, 4u); }

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

Result<WrittenShard> written_shard(const DataShard& shard, FileSums sums, std::span<const uint32_t> crcs,
                                   const std::function<CastCounts(const std::string&)>& counts) {
  if (sums.bytes != shard.bytes)
    return bug("", "{}: {} bytes were written, {} were planned", shard.file, sums.bytes, shard.bytes);
  WrittenShard written{std::move(sums), {}};
  for (size_t i = 0; i < shard.tensors.size(); ++i)
    written.tensors.push_back({shard.tensors[i].name, crcs[i], counts(shard.tensors[i].name), false});
  return written;
}

Result<std::unique_ptr<Conversion>> plan_conversion(const FileSystem& files, const std::string& source,
                                                    const ConvertOptions& options, bool check_scales) {
  TANDEM_TRY(OpenedModel opened, open_model(files, source, {.limits = options.limits}));
  const bool back = is_tensorflow(opened.format);
  const ConvertTarget target =
      options.to.value_or(back ? ConvertTarget::safetensors : ConvertTarget::saved_model);
  const bool to_tensorflow = target != ConvertTarget::safetensors;
  if (back == to_tensorflow)
    return usage("convert_c4", "a {} is already on that side: --to does not fit", name(opened.format))
        .at(source);
  if (options.inlined && target != ConvertTarget::saved_model)
    return usage("convert_c4", "--inline is for a SavedModel: nothing else has a graph");
  if (options.matmul_precision != DType::f32 && target != ConvertTarget::saved_model)
    return usage("convert_c4", "--matmul-precision is for a SavedModel: nothing else has a graph");
  return back ? plan_back(files, std::move(opened), options)
              : plan_forward(files, std::move(opened), options, check_scales);
}

}  // namespace tandem
