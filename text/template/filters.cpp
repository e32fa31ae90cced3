// Filters: `value | NAME`.

#include <algorithm>
#include <array>
#include <cmath>

#include "text/template/text_functions.h"
#include "text/template/unicode.h"

namespace tandem::chat {
namespace {

bool flag(const Call& call, size_t i, bool missing = false) {
  return call.has(i) ? is_true(call[i]) : missing;
}

// Text.

/// The input as a string; what is markup stays so.
Result<Value> of_text(Call& call, std::string (*change)(std::string_view)) {
  TANDEM_TRY(const std::string text, call.in.str(call.self));
  return call.in.text(change(text), call.self.is_markup());
}
Result<Value> upper(Call& call) { return of_text(call, to_upper); }
Result<Value> lower(Call& call) { return of_text(call, to_lower); }
Result<Value> capitalized(Call& call) { return of_text(call, capitalize); }

/// Words begin after white space and - ( { [ <.
std::string title_words(std::string_view text) {
  std::string out;
  size_t begin = 0;
  const auto put_word = [&](size_t end) { out += capitalize(text.substr(begin, end - begin)); };
  for (size_t at = 0; at < text.size();) {
    const size_t here = at;
    const char32_t c = next(text, at);
    const bool parts = is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    if (!parts) continue;
    put_word(here);
    out += text.substr(here, at - here);
    begin = at;
  }
  put_word(text.size());
  return out;
}
Result<Value> titled(Call& call) { return of_text(call, title_words); }

Result<Value> trim(Call& call) {
  TANDEM_TRY(const std::string text, call.in.str(call.self));
  if (!call.has(0) || call[0].is(Kind::none))
    return call.in.text(std::string(strip(text)), call.self.is_markup());
  if (!call[0].is(Kind::text)) return invalid("chat_c3", "trim needs a string, found {}", type_name(call[0]));
  return call.in.text(std::string(strip(text, call[0].text(), true, true)), call.self.is_markup());
}

Result<Value> replaced(Call& call) {
  TANDEM_TRY(const std::string text, call.in.str(call.self));
  TANDEM_TRY(const std::string old, call.in.str(call[0]));
  TANDEM_TRY(const std::string by, call.in.str(call[1]));
  int64_t count = -1;
  if (call.has(2) && !call[2].is(Kind::none)) {
    if (!call[2].is_whole())
      return invalid("chat_c3", "replace needs a whole number, found {}", type_name(call[2]));
    count = call[2].whole();
  }
  TANDEM_TRY(std::string out, replace(call.in, text, old, by, count));
  return call.in.text(std::move(out));
}

Result<Value> formatted(Call& call) {
  TANDEM_TRY(const std::string format, call.in.str(call.self));
  const auto& [values, named] = call.arguments;
  if (!values.empty() && !named.empty())
    return invalid("chat_c3", "format takes values by position or by name");
  std::vector<std::pair<Value, Value>> entries;
  for (const auto& [name, value] : named) {
    TANDEM_TRY(Value key, call.in.text(name));
    entries.emplace_back(std::move(key), value);
  }
  TANDEM_TRY(const Value mapping, call.in.dict(std::move(entries)));
  TANDEM_TRY(std::string text, percent_format(call.in, format, values, named.empty() ? nullptr : &mapping));
  return call.in.text(std::move(text));
}

Result<Value> string(Call& call) {
  if (call.self.is(Kind::text)) return call.self;
  TANDEM_TRY(std::string text, call.in.str(call.self));
  return call.in.text(std::move(text));
}

Result<Value> safe(Call& call) {
  TANDEM_TRY(std::string text, call.in.str(call.self));
  return call.in.text(std::move(text), true);
}

Result<Value> escape(Call& call) {
  TANDEM_TRY(std::string text, call.in.str(call.self));
  return call.in.text(call.self.is_markup() ? std::move(text) : escape_html(text), true);
}

Result<std::string> indentation(Call& call) {
  if (!call.has(0)) return std::string(4, ' ');
  if (call[0].is(Kind::text)) return call[0].text();
  if (!call[0].is_whole()) return invalid("chat_c3", "indent needs a whole number or a string");
  TANDEM_CHECK(call.in.handle_bytes(static_cast<size_t>(std::max<int64_t>(0, call[0].whole()))));
  return std::string(static_cast<size_t>(std::max<int64_t>(0, call[0].whole())), ' ');
}

Result<Value> indent(Call& call) {
  if (call.self.is(Kind::undefined)) return undefined_error(call.self);
  if (!call.self.is(Kind::text))
    return invalid("chat_c3", "indent needs a string, found {}", type_name(call.self));
  TANDEM_TRY(const std::string blanks, indentation(call));
  const bool first = flag(call, 1), blank = flag(call, 2);
  const std::string text = call.self.text() + "\n";
  Writer out(call.in);
  size_t i = 0;
  for (std::string_view line : split_lines(text)) {
    if (i > 0) out.put('\n');
    if (i == 0 ? first : blank || !line.empty()) out.put(blanks);
    out.put(line);
    ++i;
  }
  TANDEM_TRY(std::string done, out.finish());
  return call.in.text(std::move(done), call.self.is_markup());
}

/// json.dumps' indent: blanks by their number, or a string.
Result<std::optional<std::string>> json_indent(Call& call) {
  if (!call.has(1) || call[1].is(Kind::none)) return std::optional<std::string>();
  if (call[1].is(Kind::text)) return std::optional<std::string>(call[1].text());
  if (!call[1].is_whole()) return invalid("chat_c3", "tojson's indent is a whole number or a string");
  const auto blanks = static_cast<size_t>(std::max<int64_t>(0, call[1].whole()));
  TANDEM_CHECK(call.in.handle_bytes(blanks));
  return std::optional<std::string>(std::string(blanks, ' '));
}

Result<std::pair<std::string, std::string>> json_separators(Call& call, bool has_indent) {
  if (!call.has(2) || call[2].is(Kind::none))
    return std::pair<std::string, std::string>(has_indent ? "," : ", ", ": ");
  TANDEM_TRY(const std::vector<Value> both, call.in.walk(call[2]));
  if (both.size() != 2 || !both[0].is(Kind::text) || !both[1].is(Kind::text))
    return invalid("chat_c3", "tojson's separators are two strings");
  return std::pair(both[0].text(), both[1].text());
}

Result<Value> as_json(Call& call) {
  TANDEM_TRY(std::optional<std::string> indent, json_indent(call));
  TANDEM_TRY(auto separators, json_separators(call, indent.has_value()));
  const JsonStyle style{flag(call, 0), std::move(indent), std::move(separators.first),
                        std::move(separators.second), flag(call, 3)};
  TANDEM_TRY(std::string text, to_json(call.in, call.self, style));
  return call.in.text(std::move(text));
}

// Numbers.

Result<int64_t> truncated(double value) {
  if (std::isnan(value)) return invalid("chat_c3", "NaN as a whole number");
  if (std::isinf(value)) return invalid("chat_c3", "infinity as a whole number");
  const double whole = std::trunc(value);
  if (whole < -9223372036854775808.0 || whole >= 9223372036854775808.0)
    return unsupported("chat_c5", "the integer {} does not fit in 64 bits", whole);
  return static_cast<int64_t>(whole);
}

Result<Value> to_whole(Call& call) {
  const Value fallback = call.has(0) ? call[0] : Value(int64_t{0});
  const Value& self = call.self;
  if (self.is(Kind::undefined)) return undefined_error(self);
  if (self.is_whole()) return Value(self.whole());
  if (self.is(Kind::real)) {
    if (std::isnan(self.number())) return fallback;
    TANDEM_TRY(const int64_t whole, truncated(self.number()));
    return Value(whole);
  }
  if (!self.is(Kind::text)) return fallback;
  const int64_t base = call.has(1) && call[1].is_whole() ? call[1].whole() : 10;
  TANDEM_TRY(const std::optional<int64_t> whole,
             parse_whole(self.text(), static_cast<int>(std::clamp<int64_t>(base, 0, 99))));
  if (whole) return Value(*whole);
  const std::optional<double> real = parse_real(self.text());
  if (!real || !std::isfinite(*real)) return fallback;
  TANDEM_TRY(const int64_t cut, truncated(*real));
  return Value(cut);
}

Result<Value> to_real(Call& call) {
  const Value& self = call.self;
  if (self.is(Kind::undefined)) return undefined_error(self);
  if (self.is_number()) return Value(self.number());
  const std::optional<double> real = self.is(Kind::text) ? parse_real(self.text()) : std::nullopt;
  if (real) return Value(*real);
  return call.has(0) ? call[0] : Value(0.0);
}

Result<Value> absolute(Call& call) {
  const Value& self = call.self;
  if (!self.is_number()) return invalid("chat_c3", "abs needs a number, found {}", type_name(self));
  if (self.is(Kind::real)) return Value(std::fabs(self.number()));
  return self.whole() < 0 ? arithmetic(call.in, "-", Value(int64_t{0}), self) : Value(self.whole());
}

/// As Python's round: to the nearest of the exact value, ties to even.
double rounded(double value, int64_t precision) {
  if (!std::isfinite(value) || precision > 320) return value;
  if (precision >= 0)
    return std::strtod(fmt::format("{:.{}f}", value, static_cast<int>(precision)).c_str(), nullptr);
  if (precision < -308) return std::copysign(0.0, value);
  const double scale = std::pow(10.0, static_cast<double>(-precision));
  return std::nearbyint(value / scale) * scale;
}

Result<Value> round_number(Call& call) {
  const Value& self = call.self;
  if (self.is(Kind::undefined)) return undefined_error(self);
  if (!self.is_number()) return invalid("chat_c3", "round needs a number, found {}", type_name(self));
  int64_t precision = 0;
  if (call.has(0)) {
    if (!call[0].is_whole()) return invalid("chat_c3", "round needs a whole number of digits");
    precision = call[0].whole();
  }
  std::string_view method = "common";
  if (call.has(1)) method = call[1].is(Kind::text) ? std::string_view(call[1].text()) : std::string_view();
  if (method == "common") {
    if (self.is_whole() && precision >= 0) return Value(self.whole());
    if (!self.is_whole()) return Value(rounded(self.number(), precision));
    TANDEM_TRY(const int64_t whole, truncated(rounded(self.number(), precision)));
    return Value(whole);
  }
  if (method != "ceil" && method != "floor") return invalid("chat_c3", "round knows common, ceil and floor");
  const double scale = std::pow(10.0, static_cast<double>(precision)), scaled = self.number() * scale;
  if (!std::isfinite(scaled)) return invalid("chat_c3", "round of a number that is not finite");
  return Value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

// Sequences.

Result<Value> count(Call& call) {
  TANDEM_TRY(const int64_t length, call.in.length(call.self));
  return Value(length);
}

Result<Value> or_default(Call& call) {
  const bool missing = call.self.is(Kind::undefined) || (flag(call, 1) && !is_true(call.self));
  if (!missing) return call.self;
  return call.has(0) ? Result<Value>(call[0]) : call.in.text("");
}

Result<Value> first(Call& call) {
  TANDEM_TRY(std::vector<Value> items, call.in.walk(call.self));
  if (items.empty()) return undefined("no first item, the sequence is empty");
  return items.front();
}

Result<Value> last(Call& call) {
  if (call.self.is(Kind::iterator)) return invalid("chat_c3", "a generator has no last item");
  TANDEM_TRY(std::vector<Value> items, call.in.walk(call.self));
  if (items.empty()) return undefined("no last item, the sequence is empty");
  return items.back();
}

Result<Value> to_list(Call& call) {
  TANDEM_TRY(std::vector<Value> items, call.in.walk(call.self));
  return call.in.sequence(std::move(items));
}

Result<Value> reversed(Call& call) {
  TANDEM_TRY(std::vector<Value> items, call.in.walk(call.self));
  std::reverse(items.begin(), items.end());
  if (!call.self.is(Kind::text)) return call.in.iterator(std::move(items), "reversed");
  Writer out(call.in);
  for (const Value& item : items) out.put(item.text());
  TANDEM_TRY(std::string text, out.finish());
  return call.in.text(std::move(text), call.self.is_markup());
}

Result<Value> item_pairs(Call& call) {
  if (call.self.is(Kind::undefined)) return call.in.iterator({});
  if (!call.self.is(Kind::dict))
    return invalid("chat_c3", "items needs a mapping, found {}", type_name(call.self));
  std::vector<Value> pairs;
  for (const auto& [key, value] : call.self.dict().entries) {
    TANDEM_TRY(Value pair, call.in.sequence({key, value}, SequenceKind::tuple));
    pairs.push_back(std::move(pair));
  }
  return call.in.iterator(std::move(pairs));
}

Result<Value> join(Call& call) {
  TANDEM_TRY(const std::vector<Value> items, call.in.walk(call.self));
  std::string separator;
  if (call.has(0)) {
    TANDEM_TRY(separator, call.in.str(call[0]));
  }
  Writer out(call.in);
  for (size_t i = 0; i < items.size(); ++i) {
    TANDEM_TRY(const Value part, call.has(1) ? call.in.item_at_path(items[i], call[1]) : items[i]);
    TANDEM_TRY(const std::string text, call.in.str(part));
    if (i > 0) out.put(separator);
    out.put(text);
  }
  TANDEM_TRY(std::string joined, out.finish());
  return call.in.text(std::move(joined));
}

// Applying filters and tests to each item.

std::optional<Value> take_named(Arguments& arguments, std::string_view name) {
  const auto found = std::find_if(arguments.named.begin(), arguments.named.end(),
                                  [&](const auto& argument) { return argument.first == name; });
  if (found == arguments.named.end()) return std::nullopt;
  std::optional<Value> value = std::move(found->second);
  arguments.named.erase(found);
  return value;
}

Result<std::string> take_name(Arguments& arguments, std::string_view what) {
  if (arguments.positional.empty()) return invalid("chat_c3", "{} is missing", what);
  const Value name = arguments.positional.front();
  arguments.positional.erase(arguments.positional.begin());
  if (!name.is(Kind::text)) return invalid("chat_c3", "{} must be a string, found {}", what, type_name(name));
  return name.text();
}

Result<Value> map(Call& call) {
  if (!is_true(call.self)) return call.in.iterator({});  // none too, as in Jinja
  Arguments arguments = call.arguments;
  TANDEM_TRY(std::vector<Value> items, call.in.walk(call.self));
  if (items.empty()) return call.in.iterator({});
  const std::optional<Value> path =
      arguments.positional.empty() ? take_named(arguments, "attribute") : std::optional<Value>();
  if (path) {
    const std::optional<Value> fallback = take_named(arguments, "default");
    if (!arguments.named.empty())
      return invalid("chat_c3", "map has no parameter \"{}\"", arguments.named[0].first);
    for (Value& item : items) {
      TANDEM_TRY(Value found, call.in.item_at_path(item, *path));
      const bool use_fallback = found.is(Kind::undefined) && fallback && !fallback->is(Kind::none);
      item = use_fallback ? *fallback : std::move(found);
    }
    return call.in.iterator(std::move(items));
  }
  TANDEM_TRY(const std::string name, take_name(arguments, "map's filter"));
  for (Value& item : items) {
    TANDEM_TRY(item, call.in.filter(name, item, arguments));
  }
  return call.in.iterator(std::move(items));
}

/// Keeps the items for which a test, of themselves or of an attribute, gives `wanted`.
Result<Value> kept(Call& call, bool by_attribute, bool wanted) {
  if (!is_true(call.self)) return call.in.iterator({});  // none too, as in Jinja
  Arguments arguments = call.arguments;
  TANDEM_TRY(const std::vector<Value> items, call.in.walk(call.self));
  if (items.empty()) return call.in.iterator({});
  std::optional<Value> path;
  if (by_attribute) {
    if (arguments.positional.empty()) return invalid("chat_c3", "the attribute's name is missing");
    path = arguments.positional.front();
    arguments.positional.erase(arguments.positional.begin());
  }
  std::optional<std::string> test;
  if (!arguments.positional.empty()) {
    TANDEM_TRY(test, take_name(arguments, "the test"));
  }
  std::vector<Value> passed;
  for (const Value& item : items) {
    TANDEM_TRY(const Value tested, path ? call.in.item_at_path(item, *path) : item);
    TANDEM_TRY(const bool holds,
               test ? call.in.test(*test, tested, arguments) : Result<bool>(is_true(tested)));
    if (holds == wanted) passed.push_back(item);
  }
  return call.in.iterator(std::move(passed));
}
Result<Value> select(Call& call) { return kept(call, false, true); }
Result<Value> reject(Call& call) { return kept(call, false, false); }
Result<Value> select_attribute(Call& call) { return kept(call, true, true); }
Result<Value> reject_attribute(Call& call) { return kept(call, true, false); }

// Order.

/// A stable sort that stays sound whatever the order says, and hands on its errors.
Status sort_items(Interpreter& in, std::vector<std::pair<Value, Value>>& keyed, bool reverse) {
  std::vector<std::pair<Value, Value>> merged(keyed.size());
  for (size_t width = 1; width < keyed.size(); width *= 2) {
    for (size_t begin = 0; begin < keyed.size(); begin += 2 * width) {
      const size_t middle = std::min(begin + width, keyed.size()),
                   end = std::min(begin + 2 * width, keyed.size());
      for (size_t i = begin, j = middle, to = begin; to < end; ++to) {
        TANDEM_CHECK(in.step());
        bool take_right = i == middle;
        if (i < middle && j < end) {
          const Value &left = keyed[i].first, &right = keyed[j].first;
          TANDEM_TRY(take_right, reverse ? less(left, right, in.work()) : less(right, left, in.work()));
        }
        merged[to] = std::move(take_right ? keyed[j++] : keyed[i++]);
      }
    }
    keyed.swap(merged);
  }
  return {};
}

Result<Value> folded(Interpreter& in, Value value, bool case_sensitive) {
  if (case_sensitive || !value.is(Kind::text)) return value;
  return in.text(to_lower(value.text()));
}

/// What an item is sorted by, as a list: its attributes (a path, or several with commas between), or itself.
Result<Value> sort_key(Interpreter& in, const Value& item, const std::optional<Value>& attribute,
                       bool case_sensitive) {
  std::vector<Value> paths{attribute ? *attribute : Value(None{})};
  if (attribute && attribute->is(Kind::text)) {
    TANDEM_TRY(const Value split, list_of(in, split_at(attribute->text(), ",", -1, false)));
    paths = split.sequence().items;
  }
  std::vector<Value> keys;
  for (const Value& path : paths) {
    TANDEM_TRY(Value found, in.item_at_path(item, path));
    TANDEM_TRY(Value key, folded(in, std::move(found), case_sensitive));
    keys.push_back(std::move(key));
  }
  return in.sequence(std::move(keys));
}

Result<Value> sort(Call& call) {
  TANDEM_TRY(const std::vector<Value> items, call.in.walk(call.self));
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : items) {
    TANDEM_TRY(Value key, sort_key(call.in, item, call.slots[2], flag(call, 1)));
    keyed.emplace_back(std::move(key), item);
  }
  TANDEM_CHECK(sort_items(call.in, keyed, flag(call, 0)));
  std::vector<Value> sorted;
  for (auto& [key, item] : keyed) sorted.push_back(std::move(item));
  return call.in.sequence(std::move(sorted));
}

Result<Value> dict_sort(Call& call) {
  if (call.self.is(Kind::undefined)) return undefined_error(call.self);
  if (!call.self.is(Kind::dict))
    return invalid("chat_c3", "dictsort needs a mapping, found {}", type_name(call.self));
  const bool by_value = call.has(1) && call[1].is(Kind::text) && call[1].text() == "value";
  if (!by_value && call.has(1) && !(call[1].is(Kind::text) && call[1].text() == "key"))
    return invalid("chat_c3", "dictsort sorts by \"key\" or \"value\"");
  std::vector<std::pair<Value, Value>> keyed;
  for (const auto& [key, value] : call.self.dict().entries) {
    TANDEM_TRY(Value sorted_by, folded(call.in, by_value ? value : key, flag(call, 0)));
    TANDEM_TRY(Value pair, call.in.sequence({key, value}, SequenceKind::tuple));
    keyed.emplace_back(std::move(sorted_by), std::move(pair));
  }
  TANDEM_CHECK(sort_items(call.in, keyed, flag(call, 2)));
  std::vector<Value> sorted;
  for (auto& [key, pair] : keyed) sorted.push_back(std::move(pair));
  return call.in.sequence(std::move(sorted));
}

Result<Value> unique(Call& call) {
  TANDEM_TRY(const std::vector<Value> items, call.in.walk(call.self));
  std::vector<Value> seen, kept_items;
  for (const Value& item : items) {
    TANDEM_TRY(const Value found, call.has(1) ? call.in.item_at_path(item, call[1]) : item);
    TANDEM_TRY(const Value key, folded(call.in, found, flag(call, 0)));
    if (!is_hashable(key, call.in.work()))
      return invalid("chat_c3", "unique cannot tell {} apart", type_name(key));
    TANDEM_CHECK(call.in.step());
    const auto same = [&](const Value& other) { return equal(key, other, call.in.work()); };
    if (std::any_of(seen.begin(), seen.end(), same)) continue;
    seen.push_back(key);
    kept_items.push_back(item);
  }
  return call.in.iterator(std::move(kept_items));
}

Result<Value> outermost(Call& call, bool largest) {
  TANDEM_TRY(const std::vector<Value> items, call.in.walk(call.self));
  if (items.empty()) return undefined("no item to choose, the sequence is empty");
  size_t best = 0;
  Value best_key;
  for (size_t i = 0; i < items.size(); ++i) {
    TANDEM_CHECK(call.in.step());
    TANDEM_TRY(const Value found, call.has(1) ? call.in.item_at_path(items[i], call[1]) : items[i]);
    TANDEM_TRY(Value key, folded(call.in, found, flag(call, 0)));
    bool better = i == 0;
    if (!better) {
      TANDEM_TRY(better, largest ? less(best_key, key, call.in.work()) : less(key, best_key, call.in.work()));
    }
    if (!better) continue;
    best = i;
    best_key = std::move(key);
  }
  return items[best];
}
Result<Value> smallest(Call& call) { return outermost(call, false); }
Result<Value> largest(Call& call) { return outermost(call, true); }

Result<Value> sum(Call& call) {
  TANDEM_TRY(const std::vector<Value> items, call.in.walk(call.self));
  Value total = call.has(1) ? call[1] : Value(int64_t{0});
  if (total.is(Kind::text)) return invalid("chat_c3", "sum does not join strings");
  for (const Value& item : items) {
    TANDEM_CHECK(call.in.step());
    const bool by_attribute = call.has(0) && !call[0].is(Kind::none);
    TANDEM_TRY(const Value part, by_attribute ? call.in.item_at_path(item, call[0]) : item);
    TANDEM_TRY(total, arithmetic(call.in, "+", total, part));
  }
  return total;
}

constexpr auto kFilters = std::to_array<Row>({
    {"trim", "[chars]", trim},
    {"upper", "", upper},
    {"lower", "", lower},
    {"title", "", titled},
    {"capitalize", "", capitalized},
    {"replace", "old new [count]", replaced},
    {"indent", "[width] [first] [blank]", indent},
    {"format", "*", formatted},
    {"string", "", string},
    {"safe", "", safe},
    {"escape", "", escape},
    {"e", "", escape},
    {"tojson", "[ensure_ascii] [indent] [separators] [sort_keys]", as_json},
    {"int", "[default] [base]", to_whole},
    {"float", "[default]", to_real},
    {"abs", "", absolute},
    {"round", "[precision] [method]", round_number},
    {"length", "", count},
    {"count", "", count},
    {"default", "[default_value] [boolean]", or_default},
    {"d", "[default_value] [boolean]", or_default},
    {"first", "", first},
    {"last", "", last},
    {"list", "", to_list},
    {"reverse", "", reversed},
    {"items", "", item_pairs},
    {"join", "[d] [attribute]", join},
    {"map", "*", map},
    {"select", "*", select},
    {"reject", "*", reject},
    {"selectattr", "*", select_attribute},
    {"rejectattr", "*", reject_attribute},
    {"sort", "[reverse] [case_sensitive] [attribute]", sort},
    {"dictsort", "[case_sensitive] [by] [reverse]", dict_sort},
    {"unique", "[case_sensitive] [attribute]", unique},
    {"min", "[case_sensitive] [attribute]", smallest},
    {"max", "[case_sensitive] [attribute]", largest},
    {"sum", "[attribute] [start]", sum},
});

}  // namespace

std::span<const Row> filters() { return kFilters; }

}  // namespace tandem::chat
