#include "convert/record.h"

namespace tandem {
namespace {

constexpr int kVersion = 1;

Error not_a_record(std::string_view what) {
  return corrupt("record_c1", "{} is not a record of this tool: {}", kRecordFile, what);
}

Json to_json(const OriginalTensor& tensor) {
  return Json{{"name", tensor.info.name},
              {"dtype", name(tensor.info.dtype)},
              {"shape", tensor.info.shape},
              {"shard", tensor.shard}};
}

bool is_shape(const Json& json) {
  return json.is_array() &&
         std::all_of(json.begin(), json.end(), [](const Json& size) { return size.is_number_unsigned(); });
}

bool is_text(const Json& object, const char* key) { return object.contains(key) && object[key].is_string(); }

Result<OriginalTensor> original_from_json(const Json& json) {
  if (!json.is_object() || !is_text(json, "name") || !is_text(json, "dtype") || !is_text(json, "shard") ||
      !json.contains("shape") || !is_shape(json["shape"]))
    return not_a_record("an entry of \"original\" lacks name, dtype, shape or shard");
  const std::optional<DType> dtype = dtype_named(json["dtype"].get<std::string>());
  if (!dtype) return not_a_record("unknown dtype " + json["dtype"].get<std::string>());
  return OriginalTensor{{json["name"].get<std::string>(), *dtype, json["shape"].get<Shape>()},
                        json["shard"].get<std::string>()};
}

}  // namespace

std::string to_text(const Record& record) {
  Json original = Json::array();
  for (const OriginalTensor& tensor : record.original) original.push_back(to_json(tensor));
  const Json json{
      {"tandem_record", kVersion}, {"rules", to_json(record.rules)}, {"original", std::move(original)}};
  return json.dump(1) + "\n";
}

Result<Record> record_from_text(std::string_view text) {
  TANDEM_TRY(const Json json, parse_json(text));
  if (!json.is_object() || !json.contains("tandem_record") || !json.contains("rules") ||
      !json.contains("original") || !json["original"].is_array())
    return not_a_record("tandem_record, rules or original is missing");
  if (json["tandem_record"] != kVersion)
    return not_a_record(
        fmt::format("version {}, this program knows {}", json["tandem_record"].dump(), kVersion));
  Record record;
  TANDEM_TRY(record.rules, rules_from_json(json["rules"]));
  for (const Json& entry : json["original"]) {
    TANDEM_TRY(OriginalTensor tensor, original_from_json(entry));
    record.original.push_back(std::move(tensor));
  }
  return record;
}

}  // namespace tandem
