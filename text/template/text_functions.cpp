#include "text/template/text_functions.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "text/template/unicode.h"

namespace tandem::chat {

Result<std::string> replace(Interpreter& in, std::string_view text, std::string_view old, std::string_view by,
                            int64_t count) {
  TANDEM_CHECK(in.handle_bytes(text.size()));
  Writer out(in);
  size_t at = 0;
  if (old.empty()) {
    for (; count != 0 && !out.is_full(); --count) {
      TANDEM_CHECK(in.step());
      out.put(by);
      if (at == text.size()) return out.finish();
      const size_t begin = at;
      next(text, at);
      out.put(text.substr(begin, at - begin));
    }
  } else {
    for (; count != 0 && !out.is_full(); --count) {
      const size_t found = text.find(old, at);
      if (found == std::string_view::npos) break;
      TANDEM_CHECK(in.step());
      out.put(text.substr(at, found - at));
      out.put(by);
      at = found + old.size();
    }
  }
  out.put(text.substr(at));
  return out.finish();
}

std::vector<std::string_view> split_at_space(std::string_view text, int64_t most, bool from_right) {
  std::vector<std::string_view> words;
  std::string_view rest = strip(text);
  const auto ends_word = [&](size_t at) {
    size_t after = at;
    return is_space(next(rest, after));
  };
  while (!rest.empty() && most-- != 0) {
    size_t cut = 0;
    if (from_right) {
      cut = rest.size();
      for (size_t at = rest.size(); at-- > 0;) {
        if ((static_cast<unsigned char>(rest[at]) & 0xC0) == 0x80) continue;
        if (ends_word(at)) break;
        cut = at;
      }
      words.push_back(rest.substr(cut));
      rest = strip(rest.substr(0, cut), false, true);
    } else {
      while (cut < rest.size() && !ends_word(cut)) next(rest, cut);
      words.push_back(rest.substr(0, cut));
      rest = strip(rest.substr(cut), true, false);
    }
  }
  // What is left keeps the white space at its outer end, as in Python.
  if (!rest.empty()) {
    const size_t from = static_cast<size_t>(rest.data() - text.data());
    words.push_back(from_right ? text.substr(0, from + rest.size()) : text.substr(from));
  }
  if (from_right) std::reverse(words.begin(), words.end());
  return words;
}

std::vector<std::string_view> split_at(std::string_view text, std::string_view separator, int64_t most,
                                       bool from_right) {
  std::vector<std::string_view> pieces;
  for (; most != 0; --most) {
    const size_t found = from_right ? text.rfind(separator) : text.find(separator);
    if (found == std::string_view::npos) break;
    pieces.push_back(from_right ? text.substr(found + separator.size()) : text.substr(0, found));
    text = from_right ? text.substr(0, found) : text.substr(found + separator.size());
  }
  pieces.push_back(text);
  if (from_right) std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = at;
    const char32_t c = next(text, at);
    const bool ends =
        (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
    if (!ends) continue;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(begin, end - begin));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

namespace {

bool is_decimal(char c) { return c >= '0' && c <= '9'; }

/// Takes digits with single underscores between them off the front.
bool take_digits(std::string_view& text, std::string& out) {
  if (text.empty() || !is_decimal(text[0])) return false;
  while (!text.empty()) {
    if (text[0] == '_' && text.size() > 1 && is_decimal(text[1])) {
      text.remove_prefix(1);
      continue;
    }
    if (!is_decimal(text[0])) break;
    out += text[0];
    text.remove_prefix(1);
  }
  return true;
}

void take_sign(std::string_view& text, std::string& out) {
  if (text.empty() || (text[0] != '+' && text[0] != '-')) return;
  out += text[0];
  text.remove_prefix(1);
}

}  // namespace

std::optional<double> parse_real(std::string_view text) {
  text = strip(text);
  std::string plain;
  take_sign(text, plain);
  const std::string word = to_lower(text.substr(0, 9));
  if (text.size() < 9 && (word == "inf" || word == "infinity" || word == "nan"))
    return std::strtod((plain + word).c_str(), nullptr);
  bool has_digits = take_digits(text, plain);
  if (!text.empty() && text[0] == '.') {
    plain += '.';
    text.remove_prefix(1);
    has_digits |= take_digits(text, plain);
  }
  if (!has_digits) return std::nullopt;
  if (!text.empty() && (text[0] == 'e' || text[0] == 'E')) {
    plain += 'e';
    text.remove_prefix(1);
    take_sign(text, plain);
    if (!take_digits(text, plain)) return std::nullopt;
  }
  if (!text.empty()) return std::nullopt;
  return std::strtod(plain.c_str(), nullptr);
}

Result<std::optional<int64_t>> parse_whole(std::string_view text, int base) {
  text = strip(text);
  std::string plain;
  take_sign(text, plain);
  if (base < 2 || base > 36) return unsupported("chat_c5", "numbers to the base {}", base);
  const char letter = text.size() > 2 && text[0] == '0' ? static_cast<char>(text[1] | 0x20) : '\0';
  if ((base == 16 && letter == 'x') || (base == 8 && letter == 'o') || (base == 2 && letter == 'b')) {
    text.remove_prefix(2);
    if (text[0] == '_' && text.size() > 1) text.remove_prefix(1);
  }
  bool after_digit = false;
  for (char c : text) {
    const int digit = is_decimal(c)                            ? c - '0'
                      : (c | 0x20) >= 'a' && (c | 0x20) <= 'z' ? (c | 0x20) - 'a' + 10
                                                               : 99;
    if (c == '_' ? !after_digit : digit >= base) return std::optional<int64_t>();
    after_digit = c != '_';
    if (c != '_') plain += c;
  }
  if (!after_digit) return std::optional<int64_t>();
  errno = 0;
  const int64_t value = std::strtoll(plain.c_str(), nullptr, base);
  if (errno == ERANGE)
    return unsupported("chat_c5", "the integer {} does not fit in 64 bits", plain.substr(0, 40));
  return std::optional<int64_t>(value);
}

Result<Value> list_of(Interpreter& in, const std::vector<std::string_view>& pieces, bool is_markup) {
  std::vector<Value> items;
  for (std::string_view piece : pieces) {
    TANDEM_TRY(Value item, in.text(std::string(piece), is_markup));
    items.push_back(std::move(item));
  }
  return in.sequence(std::move(items));
}

}  // namespace tandem::chat
