#include "text/template/rows.h"

#include <algorithm>

namespace tandem::chat {
namespace {

struct Parameter {
  std::string_view name;
  bool is_optional = false;
};

std::vector<Parameter> parameters_of(std::string_view words) {
  std::vector<Parameter> all;
  while (!words.empty()) {
    std::string_view word = words.substr(0, words.find(' '));
    words.remove_prefix(std::min(words.size(), word.size() + 1));
    const bool is_optional = word.starts_with('[');
    if (is_optional) word = word.substr(1, word.size() - 2);
    all.push_back({word, is_optional});
  }
  return all;
}

}  // namespace

const Row* find_row(std::span<const Row> rows, std::string_view name) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

Result<std::vector<std::optional<Value>>> bind(const Row& row, Arguments& arguments) {
  std::vector<std::optional<Value>> slots;
  if (row.parameters == "*") return slots;
  const std::vector<Parameter> parameters = parameters_of(row.parameters);
  if (arguments.positional.size() > parameters.size())
    return invalid("chat_c3", "{} takes {} arguments, got {}", row.name, parameters.size(),
                   arguments.positional.size());
  slots.resize(parameters.size());
  std::move(arguments.positional.begin(), arguments.positional.end(), slots.begin());
  for (auto& [name, value] : arguments.named) {
    const auto found =
        std::find_if(parameters.begin(), parameters.end(),
                     [&, key = std::string_view(name)](const Parameter& p) { return p.name == key; });
    if (found == parameters.end()) return invalid("chat_c3", "{} has no parameter \"{}\"", row.name, name);
    auto& slot = slots[static_cast<size_t>(found - parameters.begin())];
    if (slot) return invalid("chat_c3", "{} got \"{}\" twice", row.name, name);
    slot = std::move(value);
  }
  for (size_t i = 0; i < parameters.size(); ++i)
    if (!slots[i] && !parameters[i].is_optional)
      return invalid("chat_c3", "{} needs the argument \"{}\"", row.name, parameters[i].name);
  return slots;
}

}  // namespace tandem::chat
