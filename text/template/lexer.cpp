#include "text/template/lexer.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

#include "text/template/unicode.h"

namespace tandem::chat {
namespace {

// The longer ones first.
constexpr std::array<std::string_view, 24> kSymbols{"**", "//", "==", "!=", ">=", "<=", "+", "-",
                                                    "/",  "*",  "%",  "~",  "[",  "]",  "(", ")",
                                                    "{",  "}",  ">",  "<",  "=",  ".",  ":", "|"};
constexpr std::array<std::string_view, 2> kMoreSymbols{",", ";"};

std::string with_plain_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    const bool return_alone = source[i] == '\r' && (i + 1 == source.size() || source[i + 1] != '\n');
    if (return_alone)
      out += '\n';
    else if (source[i] != '\r')
      out += source[i];
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

bool is_word(char32_t c) {
  return c == '_' || (c < 0x80 ? std::isalnum(static_cast<int>(c)) != 0
                               : u_isalnum(static_cast<UChar32>(c)) || is_digit(c));
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  Result<std::vector<Token>> run() {
    while (at_ < source_.size()) TANDEM_CHECK(text_and_tag());
    put(TokenKind::end, "");
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool here(std::string_view word) const { return rest().starts_with(word); }

  void advance(size_t to) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<ptrdiff_t>(at_),
                                         source_.begin() + static_cast<ptrdiff_t>(to), '\n'));
    at_ = to;
  }
  void skip_space() {
    size_t at = at_;
    while (at < source_.size()) {
      size_t after = at;
      if (!is_space(next(source_, after))) break;
      at = after;
    }
    advance(at);
  }
  Token& put(TokenKind kind, std::string text) {
    tokens_.push_back({kind, std::move(text), 0, 0, line_});
    return tokens_.back();
  }

  /// The text before a tag, without what the tag's sign and lstrip_blocks take from it.
  std::string_view kept(size_t tag, char sign, bool is_block) const {
    const std::string_view text = std::string_view(source_).substr(at_, tag - at_);
    if (sign == '-') return strip(text, false, true);
    if (sign == '+' || !is_block) return text;
    const size_t newline = text.rfind('\n');
    const bool from_line_start = newline != std::string_view::npos || at_ == 0 || source_[at_ - 1] == '\n';
    const size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
    return from_line_start && strip(text.substr(begin)).empty() ? text.substr(0, begin) : text;
  }
  void put_data(size_t tag, char sign, bool is_block) {
    const std::string_view text = kept(tag, sign, is_block);
    if (!text.empty()) put(TokenKind::data, std::string(text));
  }

  size_t next_tag() const {
    for (size_t at = source_.find('{', at_); at != std::string::npos; at = source_.find('{', at + 1))
      if (at + 1 < source_.size() && std::string_view("%{#").find(source_[at + 1]) != std::string_view::npos)
        return at;
    return std::string::npos;
  }

  Status text_and_tag() {
    const size_t tag = next_tag();
    if (tag == std::string::npos) {
      put(TokenKind::data, std::string(rest()));
      advance(source_.size());
      return {};
    }
    const char type = source_[tag + 1];
    const char sign = sign_at(tag + 2);
    put_data(tag, sign, type != '{');
    advance(tag + 2 + (sign ? 1 : 0));
    if (type == '#') return comment();
    if (type == '%') {
      TANDEM_TRY(const bool was_raw, raw());
      if (was_raw) return {};
    }
    return type == '{' ? inside(TokenKind::variable_begin, TokenKind::variable_end, "}}", false)
                       : inside(TokenKind::block_begin, TokenKind::block_end, "%}", true);
  }

  char sign_at(size_t at) const {
    return at < source_.size() && (source_[at] == '-' || source_[at] == '+') ? source_[at] : '\0';
  }

  /// The end of a tag at `at_`, with its sign; goes past it and past the white space that it takes.
  bool end_of_tag(std::string_view end, bool is_block) {
    const char sign = sign_at(at_);
    const size_t begin = at_ + (sign ? 1 : 0);
    if ((sign == '+' && !is_block) || !std::string_view(source_).substr(begin).starts_with(end)) return false;
    advance(begin + end.size());
    if (sign == '-')
      skip_space();
    else if (is_block && sign == '\0' && here("\n"))
      advance(at_ + 1);
    return true;
  }

  Status comment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) return syntax_error(line_, "the comment is not closed with #}");
    const bool has_sign = end > at_ && sign_at(end - 1) != '\0';
    advance(end - (has_sign ? 1 : 0));
    end_of_tag("#}", true);
    return {};
  }

  /// After `{%`: a word and the end of the tag.
  bool word_and_end(std::string_view word, bool may_trim) {
    const size_t begin = at_;
    const int line = line_;
    skip_space();
    if (here(word)) {
      advance(at_ + word.size());
      skip_space();
      const char sign = sign_at(at_);
      if ((may_trim || sign != '+') && end_of_tag("%}", may_trim || sign == '-')) return true;
    }
    at_ = begin;
    line_ = line;
    return false;
  }

  Result<bool> raw() {
    const int line = line_;
    if (!word_and_end("raw", false)) return false;
    const size_t body = at_;
    const int body_line = line_;
    for (size_t at = source_.find("{%", body); at != std::string::npos; at = source_.find("{%", at + 2)) {
      const char sign = sign_at(at + 2);
      advance(at + 2 + (sign ? 1 : 0));
      if (!word_and_end("endraw", true)) continue;
      const size_t end = at_;
      const int end_line = line_;
      at_ = body;
      line_ = body_line;
      put_data(at, sign, true);
      at_ = end;
      line_ = end_line;
      return true;
    }
    return syntax_error(line, "raw is not closed with endraw");
  }

  Status inside(TokenKind begin, TokenKind end, std::string_view closing, bool is_block) {
    put(begin, "");
    const int line = line_;
    std::string open;
    while (at_ < source_.size()) {
      if (open.empty() && ends_here(closing, is_block)) {
        put(end, "");
        end_of_tag(closing, is_block);
        return {};
      }
      size_t after = at_;
      if (is_space(next(source_, after)))
        advance(after);
      else
        TANDEM_CHECK(token(open));
    }
    return syntax_error(line, fmt::format("the tag is not closed with {}", closing));
  }

  bool ends_here(std::string_view closing, bool is_block) const {
    const char sign = sign_at(at_);
    if (sign == '+' && !is_block) return false;
    return std::string_view(source_).substr(at_ + (sign ? 1 : 0)).starts_with(closing);
  }

  Status token(std::string& open) {
    const char c = source_[at_];
    if (c >= '0' && c <= '9') return number();
    if (c == '\'' || c == '"') return string(c);
    size_t after = at_;
    if (is_word(next(source_, after))) return name();
    return symbol(open);
  }

  Status name() {
    size_t to = at_;
    while (to < source_.size()) {
      size_t after = to;
      if (!is_word(next(source_, after))) break;
      to = after;
    }
    put(TokenKind::name, source_.substr(at_, to - at_));
    advance(to);
    return {};
  }

  /// Digits with single underscores between, from `at` on.
  size_t digits(size_t at, int base = 10) const {
    const auto is = [&](size_t i) {
      return i < source_.size() && hex_digit(source_[i]) >= 0 && hex_digit(source_[i]) < base;
    };
    while (is(at) || (at < source_.size() && source_[at] == '_' && is(at + 1))) ++at;
    return at;
  }

  static std::string without_underscores(std::string text) {
    std::erase(text, '_');
    return text;
  }

  Status number() {
    const size_t whole = digits(at_);
    const auto byte = [&](size_t i) { return i < source_.size() ? source_[i] : '\0'; };
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';
    size_t to = whole;
    if (byte(to) == '.' && digits(to + 1) > to + 1 && byte(to + 1) != '_') to = digits(to + 1);
    size_t power = to;
    if (byte(power) == 'e' || byte(power) == 'E') {
      power += byte(power + 1) == '+' || byte(power + 1) == '-' ? 2 : 1;
      if (byte(power) != '_' && digits(power) > power) to = digits(power);
    }
    if (to > whole && !after_dot) {
      const std::string text = without_underscores(source_.substr(at_, to - at_));
      put(TokenKind::real, text).real = std::strtod(text.c_str(), nullptr);
      advance(to);
      return {};
    }
    return integer();
  }

  Status integer() {
    int base = 10;
    size_t begin = at_;
    if (source_[at_] == '0' && at_ + 2 < source_.size()) {
      const char letter = static_cast<char>(source_[at_ + 1] | 0x20);
      const int other = letter == 'b' ? 2 : letter == 'o' ? 8 : letter == 'x' ? 16 : 10;
      if (other != 10 && digits(at_ + 2, other) > at_ + 2) {
        base = other;
        begin = at_ + 2;
      }
    }
    size_t to = digits(begin, base);
    if (base == 10 && source_[begin] == '0') to = digits(begin, 1);  // 01 is 0 and then 1
    const std::string text = without_underscores(source_.substr(begin, to - begin));
    errno = 0;
    const int64_t value = std::strtoll(text.c_str(), nullptr, base);
    if (errno == ERANGE)
      return syntax_error(line_, fmt::format("the integer {} does not fit in 64 bits", text));
    put(TokenKind::integer, text).integer = value;
    advance(to);
    return {};
  }

  Status string(char quote) {
    size_t to = at_ + 1;
    while (to < source_.size() && source_[to] != quote) to += source_[to] == '\\' ? 2 : 1;
    if (to >= source_.size()) return syntax_error(line_, "the string is not closed");
    TANDEM_TRY(std::string text, unescaped(std::string_view(source_).substr(at_ + 1, to - at_ - 1)));
    put(TokenKind::string, std::move(text));
    advance(to + 1);
    return {};
  }

  Result<std::string> unescaped(std::string_view text) const {
    std::string out;
    for (size_t i = 0; i < text.size();) {
      if (text[i] != '\\')
        out += text[i++];
      else
        TANDEM_CHECK(escape(text, i, out));
    }
    return out;
  }

  /// One escape of Python's string literals; `i` is at the backslash, and then after the escape.
  Status escape(std::string_view text, size_t& i, std::string& out) const {
    constexpr std::string_view kLetters = "abfnrtv\\'\"", kMeanings = "\a\b\f\n\r\t\v\\'\"";
    const char letter = text[i + 1];
    i += 2;
    if (letter == '\n') return {};
    if (const size_t known = kLetters.find(letter); known != std::string_view::npos) {
      out += kMeanings[known];
      return {};
    }
    if (letter >= '0' && letter <= '7') {
      char32_t c = static_cast<char32_t>(letter - '0');
      for (int n = 0; n < 2 && i < text.size() && text[i] >= '0' && text[i] <= '7'; ++n)
        c = c * 8 + static_cast<char32_t>(text[i++] - '0');
      append(out, c);
      return {};
    }
    if (letter == 'N') return syntax_error(line_, "\\N{...} in a string is not supported");
    const size_t count = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
    if (count == 0) {
      out += '\\';
      --i;
      return {};
    }
    char32_t c = 0;
    for (size_t n = 0; n < count; ++n, ++i) {
      const int digit = i < text.size() ? hex_digit(text[i]) : -1;
      if (digit < 0) return syntax_error(line_, fmt::format("a cut-off \\{} in a string", letter));
      c = c << 4 | static_cast<char32_t>(digit);
    }
    if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000))
      return syntax_error(line_, fmt::format("\\{} in a string names no character", letter));
    append(out, c);
    return {};
  }

  Status symbol(std::string& open) {
    const auto is_here = [&](std::string_view symbol) { return here(symbol); };
    auto found = std::find_if(kSymbols.begin(), kSymbols.end(), is_here);
    std::string_view text = found != kSymbols.end() ? *found : std::string_view();
    if (text.empty())
      if (auto more = std::find_if(kMoreSymbols.begin(), kMoreSymbols.end(), is_here);
          more != kMoreSymbols.end())
        text = *more;
    if (text.empty()) {
      size_t after = at_;
      next(source_, after);
      return syntax_error(line_,
                          fmt::format("unexpected character \"{}\"", source_.substr(at_, after - at_)));
    }
    constexpr std::string_view kOpening = "{([", kClosing = "})]";
    if (kOpening.find(text[0]) != std::string_view::npos) {
      open += kClosing[kOpening.find(text[0])];
    } else if (kClosing.find(text[0]) != std::string_view::npos) {
      if (open.empty()) return syntax_error(line_, fmt::format("unexpected \"{}\"", text));
      if (open.back() != text[0])
        return syntax_error(line_, fmt::format("unexpected \"{}\", expected \"{}\"", text, open.back()));
      open.pop_back();
    }
    put(TokenKind::symbol, std::string(text));
    advance(at_ + text.size());
    return {};
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

Error syntax_error(int line, std::string text) {
  return invalid("chat_c1", "{}", text).at(fmt::format("line {}", line));
}

Result<std::vector<Token>> tokenize(std::string_view source) {
  if (!is_utf8(source)) return invalid("chat_c1", "the template is not UTF-8");
  return Lexer(with_plain_newlines(source)).run();
}

}  // namespace tandem::chat
