// The JSON form of rule tables.

#include <algorithm>

#include "rules/problems.h"
#include "rules/rules.h"

namespace tandem {
namespace {

constexpr int kVersion = 1;

Json to_json(const RuleRow& row) {
  Json json;
  json["hf"] = row.hf;
  json["tf"] = row.tf;
  json["shape"] = row.shape;
  json["sizes"] = row.sizes;
  json["holes"] = Json::object();
  for (const auto& [hole, range] : row.holes) json["holes"][hole] = {range.begin, range.end};
  json["steps"] = Json::array();
  for (const Step& step : row.steps) json["steps"].push_back(to_string(step));
  json["dtype"] = row.dtype;
  json["trainable"] = row.trainable;
  json["in_graph"] = row.in_graph;
  if (!row.tied_to.empty()) json["tied_to"] = row.tied_to;
  if (row.optional) json["optional"] = true;
  if (!row.ignore.empty()) json["ignore"] = row.ignore;
  return json;
}

bool read(const Json& json, std::string& value) {
  if (!json.is_string()) return false;
  value = json.get<std::string>();
  return true;
}
bool read(const Json& json, bool& value) {
  if (!json.is_boolean()) return false;
  value = json.get<bool>();
  return true;
}
bool read(const Json& json, uint64_t& value) {
  if (!json.is_number_integer() || (!json.is_number_unsigned() && json.get<int64_t>() < 0)) return false;
  value = json.get<uint64_t>();
  return true;
}
bool read(const Json& json, Json& value) {
  value = json;
  return true;
}
template <class T>
bool read(const Json& json, std::vector<T>& values) {
  if (!json.is_array()) return false;
  for (const Json& item : json)
    if (!read(item, values.emplace_back())) return false;
  return true;
}
bool read(const Json& json, std::map<std::string, HoleRange>& holes) {
  if (!json.is_object()) return false;
  for (const auto& [hole, range] : json.items()) {
    std::vector<uint64_t> ends;
    if (!read(range, ends) || ends.size() != 2) return false;
    holes[hole] = {ends[0], ends[1]};
  }
  return true;
}

/// The fields of one object, each to be asked for once; what nobody asked for is unknown.
class Fields {
 public:
  Fields(const Json& json, std::string where, Problems& problems)
      : json_(json), where_(std::move(where)), problems_(problems) {}

  template <class T>
  void field(const char* name, T& value, bool required, const char* expected) {
    known_.push_back(name);
    const auto found = json_.find(name);
    if (found == json_.end()) {
      if (required) problems_.add("rules_c2", "{}: field {} is missing", where_, name);
    } else if (!read(*found, value)) {
      problems_.add("rules_c2", "{}: field {} is not {}", where_, name, expected);
    }
  }
  void end() {
    for (const auto& [name, value] : json_.items())
      if (std::find(known_.begin(), known_.end(), name) == known_.end())
        problems_.add("rules_c2", "{}: field {} is unknown", where_, name);
  }

 private:
  const Json& json_;
  std::string where_;
  Problems& problems_;
  std::vector<std::string> known_;
};

RuleRow row_from_json(const Json& json, size_t number, Problems& problems) {
  RuleRow row;
  const std::string where = fmt::format("row {}", number);
  if (!json.is_object()) {
    problems.add("rules_c2", "{} is not an object", where);
    return row;
  }
  Fields fields(json, where, problems);
  fields.field("hf", row.hf, true, "text");
  fields.field("tf", row.tf, true, "text");
  fields.field("shape", row.shape, true, "a list of texts");
  fields.field("sizes", row.sizes, true, "a list of sizes");
  fields.field("holes", row.holes, true, "an object of [begin, end] ranges");
  std::vector<std::string> steps;
  fields.field("steps", steps, true, "a list of texts");
  fields.field("dtype", row.dtype, true, "text");
  fields.field("trainable", row.trainable, true, "true or false");
  fields.field("in_graph", row.in_graph, true, "true or false");
  fields.field("tied_to", row.tied_to, false, "text");
  fields.field("optional", row.optional, false, "true or false");
  fields.field("ignore", row.ignore, false, "text");
  fields.end();
  for (const std::string& text : steps) {
    const auto step = parse_step(text);
    if (step.ok())
      row.steps.push_back(step.value());
    else
      problems.add("rules_c1", "{}: {}", where, step.error().text);
  }
  return row;
}

}  // namespace

Json to_json(const RuleTable& table) {
  Json json;
  json["version"] = kVersion;
  json["architecture"] = table.architecture;
  json["rows"] = Json::array();
  for (const RuleRow& row : table.rows) json["rows"].push_back(to_json(row));
  return json;
}

Result<RuleTable> rules_from_json(const Json& json) {
  Problems problems;
  RuleTable table;
  if (!json.is_object())
    return invalid("rules_c2", "a rule table is an object with version, architecture and rows");
  if (const auto version = json.find("version"); version != json.end() && *version != kVersion)
    return unsupported("rules_c2", "the rules are of version {}, this program reads version {}",
                       version->dump(), kVersion);
  Fields fields(json, "rules", problems);
  uint64_t version = kVersion;
  fields.field("version", version, true, "a number");
  fields.field("architecture", table.architecture, true, "text");
  std::vector<Json> rows;
  fields.field("rows", rows, true, "a list");
  fields.end();
  for (const Json& row : rows) table.rows.push_back(row_from_json(row, table.rows.size(), problems));
  TANDEM_CHECK(problems.status());
  TANDEM_CHECK(check(table));
  return table;
}

}  // namespace tandem
