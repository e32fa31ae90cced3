// Python's two ways to fill a string: `"%05.2f" % x` and `"{} {name}".format(...)`.

#include <algorithm>
#include <cmath>

#include "text/template/text_functions.h"
#include "text/template/unicode.h"

namespace tandem::chat {
namespace {

constexpr int64_t kWidest = 10'000;

/// One directive: %[flags][width][.precision]type
struct Directive {
  std::string flags;
  int width = 0, precision = -1;
  char type = 's';
};

bool take_number(std::string_view& text, int& number) {
  int64_t value = 0;
  bool any = false;
  for (; !text.empty() && text[0] >= '0' && text[0] <= '9' && value <= kWidest;
       text.remove_prefix(1), any = true)
    value = value * 10 + (text[0] - '0');
  if (value > kWidest) return false;
  if (any) number = static_cast<int>(value);
  return true;
}

Result<Directive> take_directive(std::string_view& text) {
  Directive one;
  for (; !text.empty() && std::string_view("-+ 0#").find(text[0]) != std::string_view::npos;
       text.remove_prefix(1))
    one.flags += text[0];
  bool fits = take_number(text, one.width);
  if (fits && text.starts_with('.')) {
    text.remove_prefix(1);
    one.precision = 0;
    fits = take_number(text, one.precision);
  }
  if (!fits) return invalid("chat_c2", "a format wider than {}", kWidest);
  if (text.empty()) return invalid("chat_c3", "a format ends within a %");
  one.type = text[0];
  text.remove_prefix(1);
  if (std::string_view("srdiufFeEgGxXo").find(one.type) == std::string_view::npos)
    return unsupported("chat_c5", "%{} in a format is not supported", one.type);
  return one;
}

std::string printf_flags(const Directive& one) {
  return fmt::format("%{}{}", one.flags, one.width > 0 ? std::to_string(one.width) : "");
}

Result<std::string> whole_number(const Directive& one, const Value& value) {
  int64_t whole = 0;
  if (value.is(Kind::real) && std::fabs(value.number()) < 9e18 &&
      std::string_view("diu").find(one.type) != std::string_view::npos)
    whole = static_cast<int64_t>(value.number());
  else if (value.is_whole())
    whole = value.whole();
  else
    return invalid("chat_c3", "%{} needs a number, found {}", one.type, type_name(value));
  const bool is_decimal = std::string_view("diu").find(one.type) != std::string_view::npos;
  if (!is_decimal && (whole < 0 || one.flags.find('#') != std::string::npos))
    return unsupported("chat_c5", "%{} of a negative number, or with #", one.type);
  const std::string precision = one.precision >= 0 ? fmt::format(".{}", one.precision) : "";
  const std::string format = printf_flags(one) + precision + "l" + (is_decimal ? 'd' : one.type);
  std::string out(static_cast<size_t>(one.width + std::max(one.precision, 0)) + 64, '\0');
  out.resize(
      static_cast<size_t>(std::snprintf(out.data(), out.size(), format.c_str(), static_cast<long>(whole))));
  return out;
}

Result<std::string> real_number(const Directive& one, const Value& value) {
  if (!value.is_number())
    return invalid("chat_c3", "%{} needs a number, found {}", one.type, type_name(value));
  const std::string format =
      printf_flags(one) + fmt::format(".{}", one.precision < 0 ? 6 : one.precision) + one.type;
  std::string out(static_cast<size_t>(one.width + std::max(one.precision, 0)) + 400, '\0');
  out.resize(static_cast<size_t>(std::snprintf(out.data(), out.size(), format.c_str(), value.number())));
  return out;
}

Result<std::string> one_value(Interpreter& in, const Directive& one, const Value& value) {
  if (std::string_view("fFeEgG").find(one.type) != std::string_view::npos) return real_number(one, value);
  if (one.type != 's' && one.type != 'r') return whole_number(one, value);
  TANDEM_TRY(std::string text, one.type == 's' ? in.str(value) : in.repr(value));
  if (one.precision >= 0) text.resize(byte_of(text, static_cast<size_t>(one.precision)));
  const size_t count = length(text), width = static_cast<size_t>(one.width);
  const std::string blanks(count < width ? width - count : 0, ' ');
  return one.flags.find('-') != std::string::npos ? text + blanks : blanks + text;
}

}  // namespace

Result<std::string> percent_format(Interpreter& in, std::string_view format, const std::vector<Value>& values,
                                   const Value* container) {
  Writer out(in);
  size_t used = 0;
  while (!format.empty()) {
    TANDEM_CHECK(in.step());
    const size_t sign = std::min(format.find('%'), format.size());
    out.put(format.substr(0, sign));
    format.remove_prefix(sign);
    if (format.empty()) break;
    format.remove_prefix(1);
    if (format.starts_with('%')) {
      out.put('%');
      format.remove_prefix(1);
      continue;
    }
    const Value* value = nullptr;
    if (format.starts_with('(')) {
      const size_t end = format.find(')');
      if (end == std::string_view::npos || !container || !container->is(Kind::dict))
        return invalid("chat_c3", "a format by name needs a mapping");
      TANDEM_TRY(const Value key, in.text(std::string(format.substr(1, end - 1))));
      value = find(container->dict(), key, in.work());
      if (!value) return invalid("chat_c3", "the format names \"{}\", which is not given", key.text());
      format.remove_prefix(end + 1);
    }
    TANDEM_TRY(const Directive one, take_directive(format));
    if (!value) {
      if (used == values.size()) return invalid("chat_c3", "not enough values for the format");
      value = &values[used++];
    }
    TANDEM_TRY(const std::string text, one_value(in, one, *value));
    out.put(text);
  }
  if (used < values.size() && !container) return invalid("chat_c3", "more values than the format has places");
  return out.finish();
}

Result<std::string> brace_format(Interpreter& in, std::string_view format, const Arguments& arguments) {
  Writer out(in);
  size_t used = 0;
  while (!format.empty()) {
    TANDEM_CHECK(in.step());
    const size_t brace = std::min(format.find_first_of("{}"), format.size());
    out.put(format.substr(0, brace));
    format.remove_prefix(brace);
    if (format.empty()) break;
    const char c = format[0];
    format.remove_prefix(1);
    if (format.starts_with(c)) {
      out.put(c);
      format.remove_prefix(1);
      continue;
    }
    const size_t end = format.find('}');
    if (c == '}' || end == std::string_view::npos) return invalid("chat_c3", "a single brace in a format");
    const std::string_view field = format.substr(0, end);
    format.remove_prefix(end + 1);
    if (field.find_first_of(".[!:{") != std::string_view::npos)
      return unsupported("chat_c5", "the field \"{{{}}}\" in a format is not supported", field.substr(0, 80));
    const bool is_number = !field.empty() && field.find_first_not_of("0123456789") == std::string_view::npos;
    const Value* value = nullptr;
    if (field.empty() || is_number) {
      TANDEM_TRY(const auto index, parse_whole(is_number ? field : "0", 10));
      const size_t at = field.empty() ? used++ : static_cast<size_t>(index.value_or(0));
      if (at < arguments.positional.size()) value = &arguments.positional[at];
    } else {
      for (const auto& [name, named] : arguments.named)
        if (name == field) value = &named;
    }
    if (!value) return invalid("chat_c3", "the format's field \"{{{}}}\" is not given", field.substr(0, 80));
    TANDEM_TRY(const std::string text, in.str(*value));
    out.put(text);
  }
  return out.finish();
}

}  // namespace tandem::chat
