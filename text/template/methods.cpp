// Methods of strings, lists, mappings and of `loop`.

#include <algorithm>
#include <array>

#include "text/template/text_functions.h"
#include "text/template/unicode.h"

namespace tandem::chat {
namespace {

// Strings.

std::string_view self_text(const Call& call) { return call.self.text(); }

Result<std::string_view> text_argument(const Call& call, size_t i) {
  if (call[i].is(Kind::text)) return std::string_view(call[i].text());
  if (call[i].is(Kind::undefined)) return undefined_error(call[i]);
  return invalid("chat_c3", "expected a string, found {}", type_name(call[i]));
}

Result<int64_t> whole_argument(const Call& call, size_t i, int64_t missing) {
  if (!call.has(i) || call[i].is(Kind::none)) return missing;
  if (call[i].is(Kind::undefined)) return undefined_error(call[i]);
  if (!call[i].is_whole()) return invalid("chat_c3", "expected a whole number, found {}", type_name(call[i]));
  return call[i].whole();
}

Result<Value> same_kind(Call& call, std::string text) {
  return call.in.text(std::move(text), call.self.is_markup());
}

template <bool left, bool right>
Result<Value> strip_sides(Call& call) {
  TANDEM_CHECK(call.in.handle_bytes(self_text(call).size()));
  if (!call.has(0) || call[0].is(Kind::none))
    return same_kind(call, std::string(strip(self_text(call), left, right)));
  TANDEM_TRY(const std::string_view set, text_argument(call, 0));
  return same_kind(call, std::string(strip(self_text(call), set, left, right)));
}

template <bool from_right>
Result<Value> split(Call& call) {
  const std::string_view text = self_text(call);
  TANDEM_CHECK(call.in.handle_bytes(text.size()));
  TANDEM_TRY(const int64_t most, whole_argument(call, 1, -1));
  if (!call.has(0) || call[0].is(Kind::none))
    return list_of(call.in, split_at_space(text, most, from_right), call.self.is_markup());
  TANDEM_TRY(const std::string_view separator, text_argument(call, 0));
  if (separator.empty()) return invalid("chat_c3", "split at an empty string");
  return list_of(call.in, split_at(text, separator, most, from_right), call.self.is_markup());
}

Result<Value> split_into_lines(Call& call) {
  TANDEM_CHECK(call.in.handle_bytes(self_text(call).size()));
  const std::vector<std::string_view> lines = split_lines(self_text(call));
  if (!call.has(0) || !is_true(call[0])) return list_of(call.in, lines, call.self.is_markup());
  std::vector<std::string_view> with_ends;
  for (size_t i = 0; i < lines.size(); ++i) {
    const char* end =
        i + 1 < lines.size() ? lines[i + 1].data() : self_text(call).data() + self_text(call).size();
    with_ends.emplace_back(lines[i].data(), static_cast<size_t>(end - lines[i].data()));
  }
  return list_of(call.in, with_ends, call.self.is_markup());
}

/// The part of the text that two arguments bound, as in text[start:end]; where it begins, in code points.
struct Part {
  std::string_view text;
  int64_t from = 0;
  bool is_valid = true;  ///< the start is not behind the end
};
Result<Part> part_of(Call& call, size_t first) {
  const std::string_view text = self_text(call);
  TANDEM_CHECK(call.in.handle_bytes(text.size()));
  const auto count = static_cast<int64_t>(length(text));
  TANDEM_TRY(int64_t from, whole_argument(call, first, 0));
  TANDEM_TRY(int64_t to, whole_argument(call, first + 1, count));
  if (from < 0) from = std::max<int64_t>(0, from + count);
  to = to < 0 ? std::max<int64_t>(0, to + count) : std::min(to, count);
  if (from > to) return Part{{}, from, false};
  const size_t begin = byte_of(text, static_cast<size_t>(from)), end = byte_of(text, static_cast<size_t>(to));
  return Part{text.substr(begin, end - begin), from, true};
}

template <bool at_end>
Result<Value> begins_or_ends(Call& call) {
  TANDEM_TRY(const Part part, part_of(call, 1));
  std::vector<Value> wanted{call[0]};
  if (call[0].is(Kind::sequence) && call[0].sequence().kind == SequenceKind::tuple)
    wanted = call[0].sequence().items;
  for (const Value& word : wanted) {
    if (word.is(Kind::undefined)) return undefined_error(word);
    if (!word.is(Kind::text)) return invalid("chat_c3", "expected a string, found {}", type_name(word));
    if (part.is_valid && (at_end ? part.text.ends_with(word.text()) : part.text.starts_with(word.text())))
      return Value(true);
  }
  return Value(false);
}

template <bool from_right, bool must>
Result<Value> position(Call& call) {
  TANDEM_TRY(const std::string_view word, text_argument(call, 0));
  TANDEM_TRY(const Part part, part_of(call, 1));
  const size_t found = !part.is_valid ? std::string_view::npos
                       : from_right   ? part.text.rfind(word)
                                      : part.text.find(word);
  if (found != std::string_view::npos)
    return Value(part.from + static_cast<int64_t>(length(part.text.substr(0, found))));
  if (must) return invalid("chat_c3", "the string does not hold \"{}\"", word.substr(0, 80));
  return Value(int64_t{-1});
}

Result<Value> count_in_text(Call& call) {
  TANDEM_TRY(const std::string_view word, text_argument(call, 0));
  TANDEM_TRY(const Part part, part_of(call, 1));
  if (!part.is_valid) return Value(int64_t{0});
  if (word.empty()) return Value(static_cast<int64_t>(length(part.text)) + 1);
  int64_t count = 0;
  for (size_t at = part.text.find(word); at != std::string_view::npos;
       at = part.text.find(word, at + word.size()))
    ++count;
  return Value(count);
}

Result<Value> replace_in_text(Call& call) {
  TANDEM_TRY(const std::string_view old, text_argument(call, 0));
  TANDEM_TRY(const std::string_view by, text_argument(call, 1));
  TANDEM_TRY(const int64_t count, whole_argument(call, 2, -1));
  TANDEM_TRY(std::string replaced, replace(call.in, self_text(call), old, by, count));
  return same_kind(call, std::move(replaced));
}

template <std::string (*change)(std::string_view)>
Result<Value> changed(Call& call) {
  TANDEM_CHECK(call.in.handle_bytes(self_text(call).size()));
  return same_kind(call, change(self_text(call)));
}

template <bool at_end>
Result<Value> without(Call& call) {
  TANDEM_TRY(const std::string_view word, text_argument(call, 0));
  std::string_view text = self_text(call);
  if (at_end && text.ends_with(word)) text.remove_suffix(word.size());
  if (!at_end && text.starts_with(word)) text.remove_prefix(word.size());
  return same_kind(call, std::string(text));
}

template <bool (*holds)(char32_t)>
Result<Value> all_are(Call& call) {
  const std::string_view text = self_text(call);
  TANDEM_CHECK(call.in.handle_bytes(text.size()));
  for (size_t at = 0; at < text.size();)
    if (!holds(next(text, at))) return Value(false);
  return Value(!text.empty());
}

bool is_letter_or_digit(char32_t c) { return is_alphabetic(c) || is_digit(c); }

template <std::string (*to_case)(std::string_view)>
Result<Value> has_case(Call& call) {
  const std::string_view text = self_text(call);
  bool has_letter = false;
  for (size_t at = 0; at < text.size();) has_letter |= is_cased(next(text, at));
  return Value(has_letter && to_case(text) == text);
}

Result<Value> join_texts(Call& call) {
  TANDEM_TRY(const std::vector<Value> items, call.in.walk(call[0]));
  Writer out(call.in);
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is(Kind::text))
      return invalid("chat_c3", "join needs strings, found {}", type_name(items[i]));
    if (i > 0) out.put(self_text(call));
    out.put(items[i].text());
  }
  TANDEM_TRY(std::string joined, out.finish());
  return same_kind(call, std::move(joined));
}

Result<Value> format(Call& call) {
  TANDEM_TRY(std::string text, brace_format(call.in, self_text(call), call.arguments));
  return same_kind(call, std::move(text));
}

constexpr auto kTextMethods = std::to_array<Row>({
    {"strip", "[chars]", strip_sides<true, true>},
    {"lstrip", "[chars]", strip_sides<true, false>},
    {"rstrip", "[chars]", strip_sides<false, true>},
    {"split", "[sep] [maxsplit]", split<false>},
    {"rsplit", "[sep] [maxsplit]", split<true>},
    {"splitlines", "[keepends]", split_into_lines},
    {"startswith", "prefix [start] [end]", begins_or_ends<false>},
    {"endswith", "suffix [start] [end]", begins_or_ends<true>},
    {"find", "sub [start] [end]", position<false, false>},
    {"rfind", "sub [start] [end]", position<true, false>},
    {"index", "sub [start] [end]", position<false, true>},
    {"rindex", "sub [start] [end]", position<true, true>},
    {"count", "sub [start] [end]", count_in_text},
    {"replace", "old new [count]", replace_in_text},
    {"upper", "", changed<to_upper>},
    {"lower", "", changed<to_lower>},
    {"title", "", changed<title>},
    {"capitalize", "", changed<capitalize>},
    {"removeprefix", "prefix", without<false>},
    {"removesuffix", "suffix", without<true>},
    {"isspace", "", all_are<is_space>},
    {"isalpha", "", all_are<is_alphabetic>},
    {"isdigit", "", all_are<is_digit>},
    {"isalnum", "", all_are<is_letter_or_digit>},
    {"isupper", "", has_case<to_upper>},
    {"islower", "", has_case<to_lower>},
    {"join", "iterable", join_texts},
    {"format", "*", format},
});

// Mappings.

Result<Value> get(Call& call) {
  if (!is_hashable(call[0], call.in.work()))
    return invalid("chat_c3", "{} cannot be a key", type_name(call[0]));
  if (const Value* found = find(call.self.dict(), call[0], call.in.work())) return *found;
  return call.has(1) ? call[1] : Value(None{});
}

Result<Value> keys(Call& call) {
  TANDEM_TRY(std::vector<Value> all, call.in.walk(call.self));
  return call.in.sequence(std::move(all), SequenceKind::keys);
}

Result<Value> values(Call& call) {
  std::vector<Value> all;
  for (const auto& [key, value] : call.self.dict().entries) all.push_back(value);
  return call.in.sequence(std::move(all), SequenceKind::values);
}

Result<Value> items(Call& call) {
  std::vector<Value> all;
  for (const auto& [key, value] : call.self.dict().entries) {
    TANDEM_TRY(Value pair, call.in.sequence({key, value}, SequenceKind::tuple));
    all.push_back(std::move(pair));
  }
  return call.in.sequence(std::move(all), SequenceKind::items);
}

Result<Value> copy(Call& call) { return call.self; }  // values do not change, so one is as good as two

constexpr auto kDictMethods = std::to_array<Row>({
    {"get", "key [default]", get},
    {"keys", "", keys},
    {"values", "", values},
    {"items", "", items},
    {"copy", "", copy},
});

// Lists and tuples.

Result<Value> index_of(Call& call) {
  const auto& all = call.self.sequence().items;
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const Value& item) { return equal(item, call[0], call.in.work()); });
  if (found == all.end()) return invalid("chat_c3", "the value is not in the list");
  return Value(static_cast<int64_t>(found - all.begin()));
}

Result<Value> count_in_list(Call& call) {
  const auto& all = call.self.sequence().items;
  return Value(static_cast<int64_t>(std::count_if(
      all.begin(), all.end(), [&](const Value& item) { return equal(item, call[0], call.in.work()); })));
}

constexpr auto kListMethods = std::to_array<Row>({
    {"index", "value", index_of},
    {"count", "value", count_in_list},
});

// The variable `loop`.

Result<Value> cycle(Call& call) {
  const auto& values = call.arguments.positional;
  if (values.empty()) return invalid("chat_c3", "cycle() needs values");
  return values[call.self.as<std::shared_ptr<Loop>>()->at % values.size()];
}

Result<Value> has_changed(Call& call) {
  Loop& loop = *call.self.as<std::shared_ptr<Loop>>();
  const auto& values = call.arguments.positional;
  const auto same = [&](const Value& a, const Value& b) { return equal(a, b, call.in.work()); };
  const bool is_equal = loop.changed && std::equal(values.begin(), values.end(), loop.changed->begin(),
                                                   loop.changed->end(), same);
  if (!is_equal) loop.changed = values;
  return Value(!is_equal);
}

constexpr auto kLoopMethods = std::to_array<Row>({
    {"cycle", "*", cycle},
    {"changed", "*", has_changed},
});

constexpr std::string_view kListChanges[] = {"append", "clear",  "extend",  "insert",
                                             "pop",    "remove", "reverse", "sort"};
constexpr std::string_view kDictChanges[] = {"clear", "pop", "popitem", "setdefault", "update"};

}  // namespace

std::span<const Row> text_methods() { return kTextMethods; }
std::span<const Row> list_methods() { return kListMethods; }
std::span<const Row> dict_methods() { return kDictMethods; }

std::span<const Row> methods_of(const Value& value) {
  if (value.is(Kind::text)) return kTextMethods;
  if (value.is(Kind::dict)) return kDictMethods;
  if (value.is(Kind::sequence) && value.sequence().kind < SequenceKind::keys) return kListMethods;
  if (value.is(Kind::loop)) return kLoopMethods;
  return {};
}

bool changes_its_value(const Value& value, std::string_view method) {
  if (value.is(Kind::dict)) return std::ranges::find(kDictChanges, method) != std::end(kDictChanges);
  const bool is_list = value.is(Kind::sequence) && value.sequence().kind == SequenceKind::list;
  return is_list && std::ranges::find(kListChanges, method) != std::end(kListChanges);
}

}  // namespace tandem::chat
