#include "contract/type.h"

#include <charconv>

namespace tandem {
namespace {

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::optional<Dim> parse_dim(std::string_view word) {
  if (word.empty()) return std::nullopt;
  if (is_digit(word.front())) {
    Dim dim;
    const auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), dim.size);
    if (failure != std::errc() || end != word.data() + word.size()) return std::nullopt;
    return dim;
  }
  if (!is_letter(word.front())) return std::nullopt;
  for (char c : word)
    if (!is_letter(c) && !is_digit(c)) return std::nullopt;
  return Dim(std::string(word));
}

}  // namespace

std::string to_string(const Dim& dim) { return dim.fixed() ? std::to_string(dim.size) : dim.symbol; }

std::string to_string(const TensorType& type) {
  std::string text = fmt::format("{}[", type.dtype);
  for (size_t axis = 0; axis < type.rank(); ++axis) {
    if (axis > 0) text += ", ";
    text += to_string(type.shape[axis]);
  }
  return text + "]";
}

Result<TensorType> parse_type(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    return corrupt("type_c1", "\"{}\" is not a type: {} (expected something like \"f32[batch, 160]\")",
                   text.substr(0, 80), why);
  };
  const std::string_view whole = trim(text);
  const size_t open = whole.find('[');
  if (open == std::string_view::npos || whole.back() != ']') return bad("it has no [sizes]");
  const std::string_view word = trim(whole.substr(0, open));
  const auto dtype = dtype_named(word);
  if (!dtype || name(*dtype) != word) return bad("no such dtype");
  TensorType type{*dtype, {}};
  std::string_view sizes = trim(whole.substr(open + 1, whole.size() - open - 2));
  while (!sizes.empty()) {
    const size_t comma = sizes.find(',');
    const auto dim = parse_dim(trim(sizes.substr(0, comma)));
    if (!dim) return bad("an axis is neither a size nor a name");
    type.shape.push_back(*dim);
    if (comma == std::string_view::npos) break;
    sizes = trim(sizes.substr(comma + 1));
    if (sizes.empty()) return bad("an axis is missing after the last comma");
  }
  return type;
}

}  // namespace tandem
