#include "contract/graph.h"

#include <algorithm>

namespace tandem {
namespace {

template <class Item>
const Item* find_by_name(const std::vector<Item>& items, std::string_view name) {
  const auto found = std::ranges::find(items, name, &Item::name);
  return found == items.end() ? nullptr : &*found;
}

template <class Wanted>
const Wanted& get(const Node& node, std::string_view name) {
  const Attribute* attribute = find_attribute(node, name);
  assert(attribute && std::holds_alternative<Wanted>(*attribute));
  return std::get<Wanted>(*attribute);
}

}  // namespace

const Block* find_block(const Contract& contract, std::string_view name) {
  return find_by_name(contract.blocks, name);
}
const Block* find_entry(const Contract& contract, std::string_view name) {
  return find_by_name(contract.entries, name);
}
const WeightEntry* find_weight(const Contract& contract, std::string_view name) {
  return find_by_name(contract.weights, name);
}

std::string full_name(std::string_view place, std::string_view name) {
  return place.empty() ? std::string(name) : fmt::format("{}.{}", place, name);
}

const Attribute* find_attribute(const Node& node, std::string_view name) {
  const auto found = node.attributes.find(std::string(name));
  return found == node.attributes.end() ? nullptr : &found->second;
}

int64_t int_attribute(const Node& node, std::string_view name) { return get<int64_t>(node, name); }
bool bool_attribute(const Node& node, std::string_view name) { return get<bool>(node, name); }
const std::string& string_attribute(const Node& node, std::string_view name) {
  return get<std::string>(node, name);
}
const std::vector<int64_t>& ints_attribute(const Node& node, std::string_view name) {
  return get<std::vector<int64_t>>(node, name);
}
double float_attribute(const Node& node, std::string_view name) {
  const Attribute* attribute = find_attribute(node, name);
  if (attribute && std::holds_alternative<int64_t>(*attribute))
    return static_cast<double>(std::get<int64_t>(*attribute));
  return get<double>(node, name);
}

}  // namespace tandem
