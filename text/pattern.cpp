#include "text/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <chrono>

#include "text/utf8.h"

namespace tandem::text {
namespace {

constexpr size_t kMaxPatternBytes = 20'000;
constexpr uint32_t kStepsFromOneStart = 1'000'000;  // backtracking: real patterns need a handful
constexpr size_t kStartsInOneCall = 512;            // then the clock is looked at
constexpr std::chrono::seconds kLongestSearch{10};  // and 2 microseconds a byte more; 0.05 is usual
constexpr size_t kJitStackBytes = 16 << 20;

// \s and \w mean other code points in PCRE2 (U+180E; marks, letter numbers): written out.
constexpr std::string_view kSpace =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
constexpr std::string_view kHex = "0-9a-fA-F";

struct Escape {
  char letter;
  std::string_view members;
  bool negated;
};
constexpr Escape kEscapes[] = {{'s', kSpace, false}, {'S', kSpace, true}, {'w', kWord, false},
                               {'W', kWord, true},   {'h', kHex, false},  {'H', kHex, true}};
// Escapes that both read alike; a character that is no letter or digit stands for itself in both.
constexpr std::string_view kSameEscapes = "pPdDrntfvaexuAzZbBGKRX";

Error no_counterpart(std::string_view source, std::string_view what) {
  return unsupported("tokenizer_c4", "pattern \"{}\": {} is not supported", source, what);
}

class Translator {
 public:
  explicit Translator(std::string_view source) : source_(source) {}

  Result<std::string> run() {
    while (at_ < source_.size()) TANDEM_CHECK(in_class_ ? class_item() : item());
    if (in_class_) return no_counterpart(source_, "a class without its end");
    return std::move(out_);
  }

 private:
  bool next_is(std::string_view text) const { return source_.substr(at_, text.size()) == text; }
  void copy(size_t count) {
    out_ += source_.substr(at_, count);
    at_ += count;
  }

  Status item() {
    const char c = source_[at_];
    if (c == '\\') return escape();
    if (c == '[') return open_class();
    if (next_is("(?")) return group();
    if (c == '}' && at_ + 1 < source_.size() && source_[at_ + 1] == '+')  // greedy there, possessive in PCRE2
      return no_counterpart(source_, "+ after {n,m}");
    copy(1);
    return {};
  }

  Status open_class() {
    in_class_ = true;
    copy(next_is("[^") ? 2 : 1);
    if (next_is("]")) return no_counterpart(source_, "] at the start of a class");
    return {};
  }

  Status class_item() {
    if (next_is("[:")) {
      const size_t end = source_.find(":]", at_);
      if (end == source_.npos) return no_counterpart(source_, "[ in a class");
      copy(end + 2 - at_);
      return {};
    }
    if (next_is("[")) return no_counterpart(source_, "a class in a class");
    if (next_is("&&")) return no_counterpart(source_, "an intersection of classes");
    if (next_is("\\")) return escape();
    if (next_is("]")) in_class_ = false;
    copy(1);
    return {};
  }

  Status escape() {
    if (at_ + 1 == source_.size()) return no_counterpart(source_, "\\ at the end");
    const char letter = source_[at_ + 1];
    for (const Escape& row : kEscapes) {
      if (row.letter != letter) continue;
      if (in_class_ && row.negated) return no_counterpart(source_, fmt::format("\\{} in a class", letter));
      out_ +=
          in_class_ ? std::string(row.members) : fmt::format("[{}{}]", row.negated ? "^" : "", row.members);
      at_ += 2;
      return {};
    }
    if (letter == 'u') return unicode_escape();
    const bool is_word = std::isalnum(static_cast<unsigned char>(letter)) != 0;
    if (is_word && kSameEscapes.find(letter) == kSameEscapes.npos)
      return no_counterpart(source_, fmt::format("\\{}", letter));
    if ((letter == 'p' || letter == 'P') && source_.substr(at_ + 2, 1) != "{")
      return no_counterpart(source_, fmt::format("\\{} without braces", letter));
    const bool braces =
        (letter == 'p' || letter == 'P' || letter == 'x') && source_.substr(at_ + 2, 1) == "{";
    const size_t end = braces ? source_.find('}', at_) : at_ + 1;
    if (end == source_.npos) return no_counterpart(source_, "{ without }");
    copy(end + 1 - at_);
    return {};
  }

  Status unicode_escape() {
    const std::string_view digits = source_.substr(at_ + 2, 4);
    if (digits.size() < 4 || digits.find_first_not_of("0123456789abcdefABCDEF") != digits.npos)
      return no_counterpart(source_, "\\u without four digits");
    out_ += fmt::format("\\x{{{}}}", digits);
    at_ += 6;
    return {};
  }

  // (?m) there lets a dot match a newline, as (?s) does here; ^ and $ always match at lines.
  Status group() {
    copy(2);
    while (at_ < source_.size() &&
           (source_[at_] == 'i' || source_[at_] == 'm' || source_[at_] == 'x' || source_[at_] == '-')) {
      out_ += source_[at_] == 'm' ? 's' : source_[at_];
      ++at_;
    }
    const bool known = next_is(":") || next_is(")") || next_is("=") || next_is("!") || next_is(">") ||
                       next_is("<=") || next_is("<!");
    if (!known) return no_counterpart(source_, fmt::format("(?{}", source_.substr(at_, 1)));
    return {};
  }

  std::string_view source_;
  size_t at_ = 0;
  bool in_class_ = false;
  std::string out_;
};

/// What one thread needs to match; PCRE2's compiled code itself may be shared.
struct Matcher {
  std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> data{
      pcre2_match_data_create(1, nullptr), &pcre2_match_data_free};
  std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)> context{
      pcre2_match_context_create(nullptr), &pcre2_match_context_free};
  std::unique_ptr<pcre2_jit_stack, decltype(&pcre2_jit_stack_free)> stack{
      pcre2_jit_stack_create(64 << 10, kJitStackBytes, nullptr), &pcre2_jit_stack_free};
  Matcher() {
    pcre2_set_depth_limit(context.get(), kStepsFromOneStart);
    pcre2_set_heap_limit(context.get(), 64 << 10);  // KiB
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }

  /// The first match that starts at `at` to `last_start`, or PCRE2's negative code.
  int search(const pcre2_code* code, std::string_view subject, size_t at, size_t last_start, bool slow) {
    const uint32_t more = slow ? 8 * uint32_t(std::min<size_t>(subject.size(), 1 << 28)) : 0;
    pcre2_set_match_limit(context.get(), kStepsFromOneStart + more);
    pcre2_set_offset_limit(context.get(), last_start);
    return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(subject.data()), subject.size(), at,
                       PCRE2_NO_UTF_CHECK, data.get(), context.get());
  }
};

std::string words_of(int code) {
  PCRE2_UCHAR words[160];
  pcre2_get_error_message(code, words, sizeof words);
  return reinterpret_cast<const char*>(words);
}

Error too_long(const std::string& source, std::string_view why) {
  return invalid("tokenizer_c5", "pattern \"{}\": {}", source, why)
      .because("the pattern backtracks too much on this text");
}

/// Keeps a search from running on for ever.
class Deadline {
 public:
  explicit Deadline(size_t bytes) : longest_(kLongestSearch + std::chrono::microseconds(2 * bytes)) {}
  /// Looked at now and then: the first look starts the clock.
  bool passed() {
    const auto now = std::chrono::steady_clock::now();
    if (!begin_) begin_ = now;
    return now - *begin_ > longest_;
  }

 private:
  std::chrono::steady_clock::duration longest_;
  std::optional<std::chrono::steady_clock::time_point> begin_;
};

void find_literal(std::string_view literal, std::string_view subject, std::vector<Span>& matches) {
  if (literal.empty()) return;
  for (size_t at = subject.find(literal); at != subject.npos; at = subject.find(literal, at + literal.size()))
    matches.push_back({uint32_t(at), uint32_t(at + literal.size())});
}

}  // namespace

Result<std::string> translate_from_oniguruma(std::string_view source) { return Translator(source).run(); }

Result<Pattern> Pattern::pcre2(std::string_view source) {
  if (source.size() > kMaxPatternBytes)
    return invalid("tokenizer_c4", "a pattern of {} bytes, at most {} are read", source.size(),
                   kMaxPatternBytes);
  int code = 0;
  PCRE2_SIZE offset = 0;
  const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_MULTILINE |
                           PCRE2_NO_AUTO_CAPTURE | PCRE2_USE_OFFSET_LIMIT;
  std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), &pcre2_compile_context_free);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_code* compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(source.data()), source.size(), options,
                                       &code, &offset, context.get());
  if (!compiled)
    return invalid("tokenizer_c4", "pattern \"{}\": {} at byte {}", source, words_of(code), offset);
  Pattern pattern;
  pattern.source_ = source;
  pattern.code_ =
      std::shared_ptr<void>(compiled, [](void* held) { pcre2_code_free(static_cast<pcre2_code*>(held)); });
  pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);  // where there is no JIT, it is interpreted
  return pattern;
}

Result<Pattern> Pattern::regex(std::string_view source) {
  if (source.size() > kMaxPatternBytes)
    return invalid("tokenizer_c4", "a pattern of {} bytes, at most {} are read", source.size(),
                   kMaxPatternBytes);
  TANDEM_TRY(const std::string translated, translate_from_oniguruma(source));
  auto pattern = pcre2(translated);
  if (pattern.ok()) pattern.value().source_ = source;
  return pattern;
}

Pattern Pattern::literal(std::string_view text) {
  Pattern pattern;
  pattern.source_ = text;
  return pattern;
}

Status Pattern::find_all(std::string_view subject, std::vector<Span>& matches) const {
  matches.clear();
  if (!code_) return find_literal(source_, subject, matches), Status{};
  thread_local Matcher matcher;
  Deadline deadline(subject.size());
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  const PCRE2_SIZE* found = pcre2_get_ovector_pointer(matcher.data.get());
  bool slow = false;  // one start at a time, with as many steps as a long run of one character may need
  for (size_t at = 0; at < subject.size();) {
    const size_t last_start = slow ? at : std::min(subject.size(), at + kStartsInOneCall);
    const int result = matcher.search(code, subject, at, last_start, slow);
    const bool look = result < 0 ? last_start < subject.size() : matches.size() % 1024 == 1023;
    if (look && deadline.passed()) return too_long(source_, "searched too long");
    if (result == PCRE2_ERROR_MATCHLIMIT && !slow) {
      slow = true;
      continue;
    }
    slow = false;
    if (result == PCRE2_ERROR_NOMATCH) {
      at = last_start == subject.size() ? last_start : last_start + 1;
      while (at < subject.size() && !starts_character(subject[at])) ++at;
      continue;
    }
    if (result < 0) return too_long(source_, words_of(result));
    const bool empty = found[0] == found[1];
    const bool after_last = !matches.empty() && matches.back().end == found[1];
    if (!empty || !after_last) matches.push_back({uint32_t(found[0]), uint32_t(found[1])});
    at = found[1];
    if (empty && at < subject.size()) at += code_point_at(subject, at).size;
  }
  return {};
}

}  // namespace tandem::text
