#include "convert/config_fault.h"

#include <algorithm>
#include <set>

namespace tandem {
namespace {

/// Attributes that stand in config.json under one key.
struct KeyRow {
  std::string_view op, attribute, key;
};
constexpr KeyRow kKeys[] = {
    {"rms_norm", "epsilon", "rms_norm_eps"},
    {"rotary", "interleaved", "rope_interleave"},
    {"activation_gate", "hidden_act", "hidden_act"},
    {"experts", "hidden_act", "hidden_act"},
    {"route", "norm_topk_prob", "norm_topk_prob"},
    {"route", "routed_scaling_factor", "routed_scaling_factor"},
    {"route", "n_group", "n_group"},
    {"route", "topk_group", "topk_group"},
};

Json to_json(const Attribute& attribute) {
  return std::visit([](const auto& value) { return Json(value); }, attribute);
}

void change_keys(const Node& right, const Node& wrong, Json& config) {
  for (const KeyRow& row : kKeys) {
    const Attribute *a = find_attribute(right, row.attribute), *b = find_attribute(wrong, row.attribute);
    if (right.op == row.op && a && b && *a != *b) config[std::string(row.key)] = to_json(*b);
  }
}

/// The rotary keys, spelled as the config spells them.
void change_rotary(const Node& right, const Node& wrong, Json& config) {
  if (right.op != "rotary_table" || right.attributes == wrong.attributes) return;
  const char* spelling = config.contains("rope_parameters") ? "rope_parameters" : "rope_scaling";
  const Json old = config.contains(spelling) ? config[spelling] : Json();
  Json scaling = old.is_object() ? old : Json::object();
  const char* type_key = scaling.contains("type") ? "type" : "rope_type";
  if (right.attributes.at("type") != wrong.attributes.at("type")) {
    Json fresh{{type_key, string_attribute(wrong, "type")}};
    if (scaling.contains("rope_theta")) fresh["rope_theta"] = scaling["rope_theta"];
    scaling = std::move(fresh);
  }
  for (const auto& [name, value] : wrong.attributes) {
    const Attribute* before = find_attribute(right, name);
    const bool is_plain = name == "dim" || name == "dtype" || name == "type" || name == "theta";
    if (!is_plain && (!before || *before != value || (!scaling.contains(name) && name == "factor")))
      scaling[name] = to_json(value);
  }
  if (right.attributes.at("theta") != wrong.attributes.at("theta")) {
    const double theta = float_attribute(wrong, "theta");
    const bool inside = scaling.contains("rope_theta");
    if (inside) scaling["rope_theta"] = theta;
    if (!inside || config.contains("rope_theta")) config["rope_theta"] = theta;
  }
  const bool is_plain_default =
      scaling.empty() || (scaling.size() == 1 && string_attribute(wrong, "type") == "default");
  if (!is_plain_default)
    config[spelling] = scaling;
  else if (config.contains(spelling))
    config[spelling] = nullptr;
}

template <class Visit>
void for_each_pair(const std::vector<Block>& right, const std::vector<Block>& wrong, const Visit& visit) {
  for (size_t b = 0; b < right.size() && b < wrong.size(); ++b)
    for (size_t n = 0; n < right[b].nodes.size() && n < wrong[b].nodes.size(); ++n)
      visit(right[b].nodes[n], wrong[b].nodes[n]);
}

bool are_between(const std::vector<Block>& graph, const std::vector<Block>& right,
                 const std::vector<Block>& wrong) {
  if (graph.size() != right.size() || graph.size() != wrong.size()) return false;
  for (size_t b = 0; b < graph.size(); ++b) {
    const size_t nodes = graph[b].nodes.size();
    if (graph[b].name != right[b].name || nodes != right[b].nodes.size() || nodes != wrong[b].nodes.size())
      return false;
    for (size_t n = 0; n < nodes; ++n)
      if (graph[b].nodes[n] != right[b].nodes[n] && graph[b].nodes[n] != wrong[b].nodes[n]) return false;
  }
  return true;
}

}  // namespace

Json config_of_fault(const Json& config, const Contract& right, const Contract& wrong) {
  Json changed = config;
  const auto change = [&](const Node& a, const Node& b) {
    if (a.op != b.op) return;
    change_keys(a, b, changed);
    change_rotary(a, b, changed);
  };
  for_each_pair(right.blocks, wrong.blocks, change);
  for_each_pair(right.entries, wrong.entries, change);
  return changed;
}

bool is_between(const Contract& graph, const Contract& right, const Contract& wrong) {
  return graph != right && graph.weights == right.weights &&
         are_between(graph.blocks, right.blocks, wrong.blocks) &&
         are_between(graph.entries, right.entries, wrong.entries);
}

std::vector<std::string> different_keys(const Json& a, const Json& b) {
  std::vector<std::string> keys;
  std::set<std::string> names;
  for (const Json* json : {&a, &b})
    for (const auto& [name, value] : json->items()) names.insert(name);
  for (const std::string& name : names) {
    const Json left = a.contains(name) ? a[name] : Json(), right = b.contains(name) ? b[name] : Json();
    if (left == right) continue;
    if (!left.is_object() || !right.is_object()) {
      keys.push_back(name);
      continue;
    }
    for (const std::string& inner : different_keys(left, right)) keys.push_back(name + "." + inner);
  }
  return keys;
}

}  // namespace tandem
