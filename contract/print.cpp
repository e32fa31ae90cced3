#include <charconv>

#include "contract/text.h"

namespace tandem {
namespace {

std::string number_text(double number) {
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  std::string text(digits, end);
  const bool looks_integer = text.find_first_not_of("-0123456789") == std::string::npos;
  return looks_integer ? text + ".0" : text;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out + '"';
}

std::string value_text(bool value) { return value ? "true" : "false"; }
std::string value_text(int64_t value) { return std::to_string(value); }
std::string value_text(double value) { return number_text(value); }
std::string value_text(const std::string& value) { return quoted(value); }
template <class Item>
std::string value_text(const std::vector<Item>& list) {
  if (list.empty()) return std::is_same_v<Item, double> ? "[.]" : "[]";
  std::string text;
  for (const Item& item : list) text += (text.empty() ? "[" : ", ") + value_text(item);
  return text + "]";
}

void append_names(std::string& text, const std::vector<std::string>& names) {
  for (size_t i = 0; i < names.size(); ++i) text += (i ? ", " : "") + names[i];
}

void append_parameters(std::string& text, const std::vector<Parameter>& parameters) {
  text += '(';
  for (size_t i = 0; i < parameters.size(); ++i)
    text += fmt::format("{}{}: {}", i ? ", " : "", parameters[i].name, parameters[i].type);
  text += ')';
}

void append_node(std::string& text, const Node& node) {
  text += "  ";
  append_names(text, node.outputs);
  text += fmt::format(" = {}(", node.op);
  std::string_view comma;
  for (const Operand& input : node.inputs) {
    text += fmt::format("{}{}{}", comma, input.is_weight ? "@" : "", input.name);
    comma = ", ";
  }
  for (const auto& [name, attribute] : node.attributes) {
    text += fmt::format("{}{}={}", comma, name,
                        std::visit([](const auto& v) { return value_text(v); }, attribute));
    comma = ", ";
  }
  text += node.tap.empty() ? ")\n" : fmt::format(")  # tap {}\n", node.tap);
}

void append_block(std::string& text, std::string_view keyword, const Block& block) {
  text += fmt::format("{} {}", keyword, block.name);
  append_parameters(text, block.inputs);
  if (!block.weights.empty()) {
    text += " weights ";
    append_parameters(text, block.weights);
  }
  text += " {\n";
  for (const Node& node : block.nodes) append_node(text, node);
  text += "  return ";
  append_names(text, block.results);
  text += "\n}\n";
}

}  // namespace

std::string print(const Contract& contract) {
  std::string text = fmt::format("contract 1\ncompute {}\n", contract.compute);
  for (const WeightEntry& weight : contract.weights)
    text += fmt::format("weight {}: {}{}{}\n", weight.name, weight.storage, to_string(weight.shape),
                        weight.trainable ? "" : " frozen");
  for (const Block& block : contract.blocks) append_block(text, "block", block);
  for (const Block& entry : contract.entries) append_block(text, "entry", entry);
  return text;
}

}  // namespace tandem
