#include "convert/task_note.h"

#include <algorithm>
#include <charconv>

namespace tandem {
namespace {

constexpr int kVersion = 1;

Error not_a_manifest(std::string_view what) {
  return corrupt("task_c1", "not the manifest of this task: {}", what);
}

std::string hex(uint32_t crc) { return fmt::format("{:08x}", crc); }

bool is_hex(const Json& json, size_t digits) {
  if (!json.is_string()) return false;
  const auto& text = json.get_ref<const std::string&>();
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

uint32_t crc_of(const Json& json) {
  const auto& text = json.get_ref<const std::string&>();
  uint32_t crc = 0;
  std::from_chars(text.data(), text.data() + text.size(), crc, 16);
  return crc;
}

Json to_json(const WrittenTensor& tensor) {
  return Json{{"name", tensor.name},
              {"crc32c", hex(tensor.crc32c)},
              {"rounded", tensor.counts.rounded},
              {"flushed", tensor.counts.flushed},
              {"overflowed", tensor.counts.overflowed},
              {"remade_scales", tensor.remade_scales}};
}

/// Fields of exactly these names, in any order.
bool has_fields(const Json& json, std::initializer_list<const char*> names) {
  return json.is_object() && json.size() == names.size() &&
         std::all_of(names.begin(), names.end(), [&](const char* name) { return json.contains(name); });
}

Result<WrittenTensor> tensor_from_json(const Json& json, const TensorInfo& info) {
  if (!has_fields(json, {"name", "crc32c", "rounded", "flushed", "overflowed", "remade_scales"}) ||
      json["name"] != info.name || !is_hex(json["crc32c"], 8) || !json["rounded"].is_number_unsigned() ||
      !json["flushed"].is_number_unsigned() || !json["overflowed"].is_number_unsigned() ||
      !json["remade_scales"].is_boolean())
    return not_a_manifest(fmt::format("the entry of {}", info.name));
  return WrittenTensor{
      info.name,
      crc_of(json["crc32c"]),
      {json["overflowed"].get<uint64_t>(), json["flushed"].get<uint64_t>(), json["rounded"].get<uint64_t>()},
      json["remade_scales"].get<bool>()};
}

}  // namespace

std::string to_text(const WrittenShard& written, const DataShard& shard, size_t task, std::string_view plan) {
  Json tensors = Json::array();
  for (const WrittenTensor& tensor : written.tensors) tensors.push_back(to_json(tensor));
  Json blocks = Json::array();
  for (const uint32_t crc : written.sums.blocks) blocks.push_back(hex(crc));
  const Json json{{"tandem_task", kVersion},
                  {"plan", plan},
                  {"task", task},
                  {"file", shard.file},
                  {"bytes", written.sums.bytes},
                  {"sha256", written.sums.sha256.empty() ? Json() : Json(written.sums.sha256)},
                  {"crc32c", hex(written.sums.crc32c)},
                  {"blocks", std::move(blocks)},
                  {"tensors", std::move(tensors)}};
  return json.dump(1) + "\n";
}

Result<WrittenShard> written_from_text(std::string_view text, const DataShard& shard, size_t task,
                                       std::string_view plan) {
  TANDEM_TRY(const Json json, parse_json(text, {.max_bytes = 1'000'000'000}));
  if (!has_fields(json,
                  {"tandem_task", "plan", "task", "file", "bytes", "sha256", "crc32c", "blocks", "tensors"}))
    return not_a_manifest("its fields");
  if (json["tandem_task"] != kVersion) return not_a_manifest("its version");
  if (json["plan"] != plan) return not_a_manifest("it is of another plan");
  if (json["task"] != task || json["file"] != shard.file) return not_a_manifest("it is of another file");
  const Json &sha256 = json["sha256"], &blocks = json["blocks"];
  if (json["bytes"] != shard.bytes || !(sha256.is_null() || is_hex(sha256, 64)) ||
      !is_hex(json["crc32c"], 8) || !blocks.is_array() ||
      blocks.size() != (shard.bytes + kSumBlock - 1) / kSumBlock ||
      !std::all_of(blocks.begin(), blocks.end(), [](const Json& crc) { return is_hex(crc, 8); }))
    return not_a_manifest("size or checksums");
  const Json& tensors = json["tensors"];
  if (!tensors.is_array() || tensors.size() != shard.tensors.size()) return not_a_manifest("its tensors");
  WrittenShard written{
      {shard.bytes, crc_of(json["crc32c"]), sha256.is_null() ? "" : sha256.get<std::string>(), {}}, {}};
  for (const Json& crc : blocks) written.sums.blocks.push_back(crc_of(crc));
  for (size_t i = 0; i < tensors.size(); ++i) {
    TANDEM_TRY(WrittenTensor tensor, tensor_from_json(tensors[i], shard.tensors[i]));
    written.tensors.push_back(std::move(tensor));
  }
  return written;
}

}  // namespace tandem
