#include "convert/structure_map.h"

#include "convert/match_report.h"
#include "convert/named_tensors.h"
#include "rules/transform.h"

namespace tandem {
namespace {

constexpr int kVersion = 1;

/// A step in words, one overload a step.
struct InWords {
  const TensorPlan& plan;
  std::string operator()(const Transpose&) const { return "transposed"; }
  std::string operator()(const Stack&) const { return fmt::format("stacked {}", plan.hf.size()); }
  std::string operator()(const BlockDequantize& blocks) const {
    return fmt::format("dequantised where fp8, in blocks of {} x {}", blocks.block_rows,
                       blocks.block_columns);
  }
};

/// The dtype of a tensor on the other side when nothing is asked for.
DType kept_dtype(const RuleRow& row, DType dtype, DType fp8_dtype) {
  if (row.dtype != "keep") return dtype_named(row.dtype).value_or(dtype);
  return dtype == DType::f8_e4m3 ? fp8_dtype : dtype;
}

MappedTensor mapped(const TensorPlan& plan, const OpenedModel& opened, DType config_dtype) {
  MappedTensor tensor{plan.hf,       config_dtype,   plan.hf_shape,       plan.tf,           config_dtype,
                      plan.tf_shape, in_words(plan), plan.row->trainable, plan.row->in_graph};
  if (const TensorInfo* found = opened.tensors().find(opened.folder ? plan.hf.front() : plan.tf))
    tensor.hf_dtype = found->dtype;
  tensor.tf_dtype = kept_dtype(*plan.row, tensor.hf_dtype, config_dtype);
  return tensor;
}

std::vector<std::string> weight_problems(const RuleTable& rules, const OpenedModel& opened) {
  if (opened.bundle) return find_named(*opened.bundle, rules).wrong;
  return opened.folder->has_weights() ? problems(match(rules, *opened.folder)) : std::vector<std::string>{};
}

Json to_json(const MappedTensor& tensor) {
  return Json{{"hf", tensor.hf},
              {"hf_dtype", row(tensor.hf_dtype).long_name},
              {"hf_shape", tensor.hf_shape},
              {"tf", tensor.tf},
              {"tf_dtype", row(tensor.tf_dtype).long_name},
              {"tf_shape", tensor.tf_shape},
              {"steps", tensor.steps},
              {"trainable", tensor.trainable},
              {"in_graph", tensor.in_graph}};
}

template <class T>
bool read_field(const Json& json, const char* key, T& value) {
  const auto found = json.find(key);
  if (found == json.end()) return false;
  try {
    value = found->template get<T>();
  } catch (const Json::exception&) {
    return false;
  }
  return true;
}

bool read_dtype(const Json& json, const char* key, DType& dtype) {
  std::string text;
  if (!read_field(json, key, text)) return false;
  const std::optional<DType> named = dtype_named(text);
  if (named) dtype = *named;
  return named.has_value();
}

Result<MappedTensor> mapped_from_json(const Json& json, size_t index) {
  MappedTensor tensor{};
  const bool read =
      json.is_object() && read_field(json, "hf", tensor.hf) && !tensor.hf.empty() &&
      read_dtype(json, "hf_dtype", tensor.hf_dtype) && read_field(json, "hf_shape", tensor.hf_shape) &&
      read_field(json, "tf", tensor.tf) && read_dtype(json, "tf_dtype", tensor.tf_dtype) &&
      read_field(json, "tf_shape", tensor.tf_shape) && read_field(json, "steps", tensor.steps) &&
      read_field(json, "trainable", tensor.trainable) && read_field(json, "in_graph", tensor.in_graph);
  if (!read) return corrupt("map_c2", "tensors[{}] is not as `tandem map --out` writes it", index);
  return tensor;
}

/// Dtypes of a stored map against a checkpoint's: names that are absent are the match's business.
void dtype_differences(const MappedTensor& stored, const OpenedModel& opened,
                       std::vector<std::string>& lines) {
  const std::vector<std::string> names = opened.folder ? stored.hf : std::vector<std::string>{stored.tf};
  const DType expected = opened.folder ? stored.hf_dtype : stored.tf_dtype;
  for (const std::string& name : names) {
    const TensorInfo* found = opened.tensors().find(name);
    if (found && found->dtype != expected)
      lines.push_back(fmt::format("wrong: {}: dtype {}, the map has {}", name, row(found->dtype).long_name,
                                  row(expected).long_name));
  }
}

}  // namespace

std::vector<std::string> in_words(const TensorPlan& plan) {
  std::vector<std::string> words;
  for (const Step& step : plan.row->steps) words.push_back(std::visit(InWords{plan}, step));
  return words;
}

Result<StructureMap> structure_map(const OpenedModel& opened, const ArchOptions& options) {
  TANDEM_TRY(const Model model, model_of(opened, options));
  StructureMap map{opened.record ? opened.record->rules : model.rules, {}, {}};
  const std::vector<std::string> wrong = weight_problems(map.rules, opened);
  if (!wrong.empty())
    return all_problems("map_c1", "the checkpoint does not fit its config", wrong).at(opened.path);
  for (const TensorPlan& plan : expand(map.rules)) map.tensors.push_back(mapped(plan, opened, model.dtype));
  for (const RuleRow& row : map.rules.rows)
    if (!row.tied_to.empty()) map.tied.push_back(fmt::format("{} is {}", row.hf, row.tied_to));
  return map;
}

std::string to_text(const StructureMap& map) {
  Json tensors = Json::array();
  for (const MappedTensor& tensor : map.tensors) tensors.push_back(to_json(tensor));
  const Json json{{"tandem_map", kVersion},
                  {"rules", to_json(map.rules)},
                  {"tied", map.tied},
                  {"tensors", std::move(tensors)}};
  return json.dump(1) + "\n";
}

Result<StructureMap> map_from_text(std::string_view text) {
  TANDEM_TRY(const Json json, parse_json(text));
  if (!json.is_object() || !json.contains("tandem_map") || !json.contains("rules") ||
      !json.contains("tensors") || !json["tensors"].is_array())
    return corrupt("map_c2", "not a map: tandem_map, rules or tensors is missing");
  if (json["tandem_map"] != kVersion)
    return corrupt("map_c2", "map version {}, this program knows {}", json["tandem_map"].dump(), kVersion);
  StructureMap map;
  TANDEM_TRY(map.rules, rules_from_json(json["rules"]));
  for (size_t i = 0; i < json["tensors"].size(); ++i) {
    TANDEM_TRY(MappedTensor tensor, mapped_from_json(json["tensors"][i], i));
    map.tensors.push_back(std::move(tensor));
  }
  return map;
}

std::vector<std::string> differences_from(const StructureMap& stored, const OpenedModel& opened) {
  std::vector<std::string> lines = weight_problems(stored.rules, opened);
  for (const MappedTensor& tensor : stored.tensors) dtype_differences(tensor, opened, lines);
  return lines;
}

}  // namespace tandem
