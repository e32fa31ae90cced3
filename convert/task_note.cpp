#include "convert/task_note.h"

#include <algorithm>
#include <charconv>

namespace tandem {
namespace {

constexpr int kVersion = 2;

Error not_a_manifest(std::string_view what) {
  return corrupt("task_c1", "not the manifest of this task: {}", what);
}

std::string crc_hex(uint32_t crc) { return fmt::format("{:08x}", crc); }

bool is_hex(const Json& json, size_t digits) {
  if (!json.is_string()) return false;
  const auto& text = json.get_ref<const std::string&>();
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

Sha256Digest digest_of(const Json& json) {
  const auto& text = json.get_ref<const std::string&>();
  Sha256Digest digest;
  for (size_t i = 0; i < digest.size(); ++i) {
    unsigned byte = 0;
    std::from_chars(text.data() + 2 * i, text.data() + 2 * i + 2, byte, 16);
    digest[i] = static_cast<std::byte>(byte);
  }
  return digest;
}

uint32_t crc_of(const Json& json) {
  const auto& text = json.get_ref<const std::string&>();
  uint32_t crc = 0;
  std::from_chars(text.data(), text.data() + text.size(), crc, 16);
  return crc;
}

Json to_json(const std::optional<Sha256Tree>& tree) {
  if (!tree) return {};
  Json blocks = Json::array();
  for (const Sha256Digest& digest : tree->blocks) blocks.push_back(hex(digest));
  return Json{{"root", hex(tree->root)}, {"blocks", std::move(blocks)}};
}

Json to_json(const WrittenTensor& tensor) {
  return Json{{"name", tensor.name},
              {"crc32c", crc_hex(tensor.crc32c)},
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

/// One for each block of sums of a file of `bytes` bytes.
bool are_hex(const Json& json, uint64_t bytes, size_t digits) {
  return json.is_array() && json.size() == (bytes + kSumBlock - 1) / kSumBlock &&
         std::ranges::all_of(json, [&](const Json& sum) { return is_hex(sum, digits); });
}

bool is_tree(const Json& json, uint64_t bytes) {
  return has_fields(json, {"root", "blocks"}) && is_hex(json["root"], 64) &&
         are_hex(json["blocks"], bytes, 64);
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
  for (const uint32_t crc : written.sums.blocks) blocks.push_back(crc_hex(crc));
  const Json json{{"tandem_task", kVersion},
                  {"plan", plan},
                  {"task", task},
                  {"file", shard.file},
                  {"bytes", written.sums.bytes},
                  {"sha256_tree", to_json(written.sums.sha256)},
                  {"crc32c", crc_hex(written.sums.crc32c)},
                  {"blocks", std::move(blocks)},
                  {"tensors", std::move(tensors)}};
  return json.dump(1) + "\n";
}

Result<WrittenShard> written_from_text(std::string_view text, const DataShard& shard, size_t task,
                                       std::string_view plan) {
  TANDEM_TRY(const Json json, parse_json(text, {.max_bytes = 1'000'000'000}));
  if (!has_fields(json, {"tandem_task", "plan", "task", "file", "bytes", "sha256_tree", "crc32c", "blocks",
                         "tensors"}))
    return not_a_manifest("its fields");
  if (json["tandem_task"] != kVersion) return not_a_manifest("its version");
  if (json["plan"] != plan) return not_a_manifest("it is of another plan");
  if (json["task"] != task || json["file"] != shard.file) return not_a_manifest("it is of another file");
  const Json &tree = json["sha256_tree"], &blocks = json["blocks"];
  if (json["bytes"] != shard.bytes || !(tree.is_null() || is_tree(tree, shard.bytes)) ||
      !is_hex(json["crc32c"], 8) || !are_hex(blocks, shard.bytes, 8))
    return not_a_manifest("size or checksums");
  const Json& tensors = json["tensors"];
  if (!tensors.is_array() || tensors.size() != shard.tensors.size()) return not_a_manifest("its tensors");
  WrittenShard written{{shard.bytes, crc_of(json["crc32c"]), {}, {}}, {}};
  if (!tree.is_null()) {
    written.sums.sha256.emplace(digest_of(tree["root"]));
    for (const Json& digest : tree["blocks"]) written.sums.sha256->blocks.push_back(digest_of(digest));
  }
  for (const Json& crc : blocks) written.sums.blocks.push_back(crc_of(crc));
  for (size_t i = 0; i < tensors.size(); ++i) {
    TANDEM_TRY(WrittenTensor tensor, tensor_from_json(tensors[i], shard.tensors[i]));
    written.tensors.push_back(std::move(tensor));
  }
  return written;
}

}  // namespace tandem
