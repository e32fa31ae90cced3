// Functions that are there without being defined: those of Jinja's sandbox and of transformers.

#include <array>

#include "text/template/interpreter.h"
#include "text/template/unicode.h"

namespace tandem::chat {
namespace {

Result<int64_t> whole(const Value& value) {
  if (value.is(Kind::undefined)) return undefined_error(value);
  if (!value.is_whole()) return invalid("chat_c3", "expected a whole number, found {}", type_name(value));
  return value.whole();
}

Result<Value> range(Call& call) {
  TANDEM_TRY(const int64_t first, whole(call[0]));
  if (!call.has(1)) return call.in.range(0, first, 1);
  TANDEM_TRY(const int64_t stop, whole(call[1]));
  int64_t step = 1;
  if (call.has(2)) {
    TANDEM_TRY(step, whole(call[2]));
  }
  return call.in.range(first, stop, step);
}

/// What dict() and namespace() are made of: a mapping or pairs, and arguments by name.
Result<std::vector<std::pair<Value, Value>>> entries_of(Call& call) {
  std::vector<std::pair<Value, Value>> entries;
  if (call.arguments.positional.size() > 1) return invalid("chat_c3", "expected one mapping at most");
  if (!call.arguments.positional.empty()) {
    const Value& first = call.arguments.positional[0];
    if (first.is(Kind::dict)) {
      entries = first.dict().entries;
    } else {
      TANDEM_TRY(const std::vector<Value> items, call.in.walk(first));
      for (const Value& item : items) {
        TANDEM_TRY(std::vector<Value> pair, call.in.walk(item));
        if (pair.size() != 2) return invalid("chat_c3", "expected pairs, found {} values", pair.size());
        entries.emplace_back(std::move(pair[0]), std::move(pair[1]));
      }
    }
  }
  for (auto& [name, value] : call.arguments.named) {
    TANDEM_TRY(Value key, call.in.text(name));
    entries.emplace_back(std::move(key), std::move(value));
  }
  return entries;
}

Result<Value> dict(Call& call) {
  TANDEM_TRY(auto entries, entries_of(call));
  return call.in.dict(std::move(entries));
}

Result<Value> name_space(Call& call) {
  TANDEM_TRY(auto entries, entries_of(call));
  TANDEM_TRY(const Value made, call.in.dict(std::move(entries)));
  std::vector<std::pair<std::string, Value>> named;
  for (const auto& [name, value] : made.dict().entries) {
    if (!name.is(Kind::text)) return invalid("chat_c3", "names of a namespace must be strings");
    if (name.text().starts_with('_'))
      return unsafe("chat_c4", "a namespace's attribute may not begin with \"_\"");
    named.emplace_back(name.text(), value);
  }
  return call.in.name_space(std::move(named));
}

Result<Value> raise_exception(Call& call) {
  TANDEM_TRY(const std::string message, call.in.str(call[0]));
  return invalid("chat_c6", "{}", message).because("the template refuses these messages");
}

Result<Value> strftime_now(Call& call) {
  TANDEM_TRY(const std::string format, call.in.str(call[0]));
  constexpr size_t kLongest = 1000;
  if (format.size() > kLongest || format.find('\0') != std::string::npos)
    return invalid("chat_c3", "a date's format of {} bytes", format.size());
  std::vector<char> text(kLongest * 32);
  const size_t written =
      format.empty() ? 0 : std::strftime(text.data(), text.size(), format.c_str(), &call.in.now());
  std::string out(text.data(), written);
  if (!is_utf8(out)) return invalid("chat_c3", "the date is not UTF-8");
  return call.in.text(std::move(out));
}

constexpr std::array<Row, 5> kFunctions{{
    {"range", "start [stop] [step]", range},
    {"dict", "*", dict},
    {"namespace", "*", name_space},
    {"raise_exception", "message", raise_exception},
    {"strftime_now", "format", strftime_now},
}};

}  // namespace

std::span<const Row> functions() { return kFunctions; }

}  // namespace tandem::chat
