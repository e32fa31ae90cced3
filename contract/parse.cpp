#include <algorithm>
#include <charconv>

#include "contract/text.h"

namespace tandem {
namespace {

constexpr size_t kMaxTextBytes = size_t{64} << 20;

bool is_word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '-' || c == '+';
}

/// A place in the text. Every take_* either moves on or leaves the place where it was.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  bool at_end() {
    skip_spaces();
    return offset_ == text_.size();
  }
  bool take(char wanted) {
    skip_spaces();
    if (offset_ == text_.size() || text_[offset_] != wanted) return false;
    ++offset_;
    return true;
  }
  bool take_keyword(std::string_view wanted) {
    const size_t before = offset_;
    if (take_word() == wanted) return true;
    offset_ = before;
    return false;
  }
  /// Letters, digits and "_.-+"; empty if there are none.
  std::string_view take_word() {
    skip_spaces();
    const size_t begin = offset_;
    while (offset_ < text_.size() && is_word_char(text_[offset_])) ++offset_;
    return text_.substr(begin, offset_ - begin);
  }
  /// Everything up to and with the next `last`; empty if there is none.
  std::string_view take_through(char last) {
    skip_spaces();
    const size_t end = text_.find(last, offset_);
    if (end == std::string_view::npos) return {};
    const size_t begin = offset_;
    offset_ = end + 1;
    return text_.substr(begin, offset_ - begin);
  }
  /// The next byte as it stands, spaces included.
  std::optional<char> take_byte() {
    if (offset_ == text_.size()) return std::nullopt;
    return text_[offset_++];
  }

  Error expected(std::string_view what) {
    skip_spaces();
    const std::string_view rest = text_.substr(offset_, 30);
    const size_t line = 1 + std::count(text_.begin(), text_.begin() + offset_, '\n');
    return corrupt("text_c1", "line {}: expected {}, found {}", line, what,
                   rest.empty() ? "the end" : fmt::format("\"{}\"", rest.substr(0, rest.find('\n'))));
  }

 private:
  void skip_spaces() {
    while (offset_ < text_.size() && (text_[offset_] == ' ' || text_[offset_] == '\n')) ++offset_;
  }

  std::string_view text_;
  size_t offset_ = 0;
};

Result<std::string> parse_name(Cursor& cursor, std::string_view what) {
  Cursor ahead = cursor;
  const std::string_view word = ahead.take_word();
  if (word.empty() || word.find('+') != std::string_view::npos) return cursor.expected(what);
  cursor = ahead;
  return std::string(word);
}

Result<TensorType> parse_type(Cursor& cursor) {
  Cursor ahead = cursor;
  auto type = tandem::parse_type(ahead.take_through(']'));
  if (!type.ok()) return cursor.expected(fmt::format("a type ({})", type.error().text));
  cursor = ahead;
  return type;
}

Status expect(Cursor& cursor, char wanted) {
  if (!cursor.take(wanted)) return cursor.expected(fmt::format("'{}'", wanted));
  return {};
}

/// A text whose opening quote has been taken.
Result<std::string> parse_text(Cursor& cursor) {
  const auto hex = [](std::optional<char> c) {
    if (!c) return -1;
    const std::string_view digits = "0123456789abcdef";
    const size_t value = digits.find(*c);
    return value == std::string_view::npos ? -1 : static_cast<int>(value);
  };
  std::string text;
  for (;;) {
    auto c = cursor.take_byte();
    if (!c || *c == '\n') return cursor.expected("the closing '\"' of a text");
    if (*c == '"') return text;
    if (*c == '\\') {
      c = cursor.take_byte();
      if (c == 'x') {
        const int high = hex(cursor.take_byte()), low = hex(cursor.take_byte());
        if (high < 0 || low < 0) return cursor.expected("two hex digits after \\x");
        c = static_cast<char>(high * 16 + low);
      } else if (c != '"' && c != '\\') {
        return cursor.expected("\\\", \\\\ or \\xNN after a backslash");
      }
    }
    text += *c;
  }
}

template <class Number>
std::optional<Number> whole_number(std::string_view word) {
  Number number{};
  const auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (failure != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return number;
}

/// An integer or another number.
Result<Attribute> parse_number(Cursor& cursor) {
  Cursor ahead = cursor;
  const std::string_view word = ahead.take_word();
  Attribute number;
  if (const auto integer = whole_number<int64_t>(word))
    number = *integer;
  else if (const auto other = whole_number<double>(word))
    number = *other;
  else
    return cursor.expected("a value (a number, \"text\", true, false or a list)");
  cursor = ahead;
  return number;
}

/// A list whose opening bracket has been taken.
Result<Attribute> parse_list(Cursor& cursor) {
  if (cursor.take(']')) return Attribute(std::vector<int64_t>{});
  if (cursor.take_keyword(".")) {
    TANDEM_CHECK(expect(cursor, ']'));
    return Attribute(std::vector<double>{});
  }
  std::vector<int64_t> integers;
  std::vector<double> numbers;
  do {
    TANDEM_TRY(const Attribute item, parse_number(cursor));
    if (const int64_t* integer = std::get_if<int64_t>(&item))
      integers.push_back(*integer);
    else
      numbers.push_back(std::get<double>(item));
    if (!integers.empty() && !numbers.empty()) return cursor.expected("a list of one kind of number");
  } while (cursor.take(','));
  TANDEM_CHECK(expect(cursor, ']'));
  return integers.empty() ? Attribute(std::move(numbers)) : Attribute(std::move(integers));
}

Result<Attribute> parse_attribute(Cursor& cursor) {
  if (cursor.take('[')) return parse_list(cursor);
  if (cursor.take('"')) {
    TANDEM_TRY(std::string text, parse_text(cursor));
    return Attribute(std::move(text));
  }
  if (cursor.take_keyword("true")) return Attribute(true);
  if (cursor.take_keyword("false")) return Attribute(false);
  return parse_number(cursor);
}

Result<std::vector<Parameter>> parse_parameters(Cursor& cursor) {
  TANDEM_CHECK(expect(cursor, '('));
  std::vector<Parameter> parameters;
  if (cursor.take(')')) return parameters;
  do {
    TANDEM_TRY(std::string name, parse_name(cursor, "the name of a parameter"));
    TANDEM_CHECK(expect(cursor, ':'));
    TANDEM_TRY(TensorType type, parse_type(cursor));
    parameters.push_back({std::move(name), std::move(type)});
  } while (cursor.take(','));
  TANDEM_CHECK(expect(cursor, ')'));
  return parameters;
}

Result<std::vector<std::string>> parse_names(Cursor& cursor, std::string_view what) {
  std::vector<std::string> names;
  do {
    TANDEM_TRY(std::string name, parse_name(cursor, what));
    names.push_back(std::move(name));
  } while (cursor.take(','));
  return names;
}

/// "x", "@weight" or "attribute=value"; operands come before attributes.
Status parse_argument(Cursor& cursor, Node& node) {
  const bool is_weight = cursor.take('@');
  TANDEM_TRY(std::string name, parse_name(cursor, "an operand or attribute"));
  if (!is_weight && cursor.take('=')) {
    TANDEM_TRY(Attribute value, parse_attribute(cursor));
    if (!node.attributes.emplace(name, std::move(value)).second)
      return cursor.expected(fmt::format("attribute {} once only", name));
    return {};
  }
  if (!node.attributes.empty())
    return cursor.expected(fmt::format("'=' after {}: operands come first", name));
  node.inputs.push_back({std::move(name), is_weight});
  return {};
}

Result<Node> parse_node(Cursor& cursor) {
  Node node;
  TANDEM_TRY(node.outputs, parse_names(cursor, "the name of a value, or return"));
  TANDEM_CHECK(expect(cursor, '='));
  TANDEM_TRY(node.op, parse_name(cursor, "the name of an op"));
  TANDEM_CHECK(expect(cursor, '('));
  if (!cursor.take(')')) {
    do {
      TANDEM_CHECK(parse_argument(cursor, node));
    } while (cursor.take(','));
    TANDEM_CHECK(expect(cursor, ')'));
  }
  if (cursor.take('#')) {
    if (!cursor.take_keyword("tap")) return cursor.expected("tap");
    TANDEM_TRY(node.tap, parse_name(cursor, "the name of a tap"));
  }
  return node;
}

Result<Block> parse_block(Cursor& cursor) {
  Block block;
  TANDEM_TRY(block.name, parse_name(cursor, "the name of a block or entry"));
  TANDEM_TRY(block.inputs, parse_parameters(cursor));
  if (cursor.take_keyword("weights")) {
    TANDEM_TRY(block.weights, parse_parameters(cursor));
  }
  TANDEM_CHECK(expect(cursor, '{'));
  while (!cursor.take_keyword("return")) {
    TANDEM_TRY(Node node, parse_node(cursor));
    block.nodes.push_back(std::move(node));
  }
  TANDEM_TRY(block.results, parse_names(cursor, "the name of a result"));
  TANDEM_CHECK(expect(cursor, '}'));
  return block;
}

Result<WeightEntry> parse_weight(Cursor& cursor) {
  WeightEntry weight;
  TANDEM_TRY(weight.name, parse_name(cursor, "the name of a weight"));
  TANDEM_CHECK(expect(cursor, ':'));
  TANDEM_TRY(const TensorType type, parse_type(cursor));
  weight.storage = type.dtype;
  for (const Dim& dim : type.shape) {
    if (!dim.fixed()) return cursor.expected(fmt::format("fixed sizes for weight {}", weight.name));
    weight.shape.push_back(dim.size);
  }
  weight.trainable = !cursor.take_keyword("frozen");
  return weight;
}

}  // namespace

Result<Contract> parse_contract(std::string_view text) {
  if (text.size() > kMaxTextBytes)
    return corrupt("text_c1", "line 1: the text has {} bytes, at most {} are read", text.size(),
                   kMaxTextBytes);
  Cursor cursor(text);
  if (!cursor.take_keyword("contract") || !cursor.take_keyword("1")) return cursor.expected("\"contract 1\"");
  if (!cursor.take_keyword("compute")) return cursor.expected("\"compute\"");
  Contract contract;
  TANDEM_TRY(const std::string word, parse_name(cursor, "a dtype"));
  const auto compute = dtype_named(word);
  if (!compute || name(*compute) != word)
    return cursor.expected(fmt::format("a dtype instead of {} before", word));
  contract.compute = *compute;
  while (cursor.take_keyword("weight")) {
    TANDEM_TRY(WeightEntry weight, parse_weight(cursor));
    contract.weights.push_back(std::move(weight));
  }
  while (cursor.take_keyword("block")) {
    TANDEM_TRY(Block block, parse_block(cursor));
    contract.blocks.push_back(std::move(block));
  }
  while (cursor.take_keyword("entry")) {
    TANDEM_TRY(Block entry, parse_block(cursor));
    contract.entries.push_back(std::move(entry));
  }
  if (!cursor.at_end()) return cursor.expected("weights, then blocks, then entries");
  return contract;
}

}  // namespace tandem
