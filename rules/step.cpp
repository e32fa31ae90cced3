// The text form of steps: name(argument,...).

#include <charconv>

#include "rules/rules.h"

namespace tandem {
namespace {

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t comma = text.find(',');
    std::string_view part = text.substr(0, comma);
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    parts.push_back(part);
    if (comma == text.npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

std::optional<uint64_t> number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<Step> make_step(std::string_view name, const std::vector<std::string_view>& arguments) {
  if (name == "transpose") {
    Transpose step;
    for (std::string_view argument : arguments) {
      const auto axis = number(argument);
      if (!axis) return std::nullopt;
      step.axes.push_back(*axis);
    }
    return step;
  }
  if (name == "stack" && arguments.size() == 2 && !arguments[0].empty()) {
    const auto chunk = number(arguments[1]);
    if (chunk) return Stack{std::string(arguments[0]), *chunk};
  }
  if (name == "block_dequantize" && arguments.size() == 3 && !arguments[2].empty()) {
    const auto rows = number(arguments[0]), columns = number(arguments[1]);
    if (rows && columns) return BlockDequantize{*rows, *columns, std::string(arguments[2])};
  }
  return std::nullopt;
}

struct ToText {
  std::string operator()(const Transpose& step) const {
    return fmt::format("transpose({})", fmt::join(step.axes, ","));
  }
  std::string operator()(const Stack& step) const {
    return fmt::format("stack({},{})", step.hole, step.chunk);
  }
  std::string operator()(const BlockDequantize& step) const {
    return fmt::format("block_dequantize({},{},{})", step.block_rows, step.block_columns, step.scale_suffix);
  }
};

}  // namespace

std::string to_string(const Step& step) { return std::visit(ToText{}, step); }

Result<Step> parse_step(std::string_view text) {
  const size_t open = text.find('(');
  if (open != text.npos && text.ends_with(')')) {
    const auto step = make_step(text.substr(0, open), split(text.substr(open + 1, text.size() - open - 2)));
    if (step) return *step;
  }
  return invalid("rules_c1",
                 "step \"{}\" is none of transpose(axis,...), stack(hole,chunk), "
                 "block_dequantize(rows,columns,scale_suffix)",
                 text);
}

}  // namespace tandem
