// Arithmetic, comparison and slices, as Python does them. Whole numbers beyond 64 bits are an error.

#include <algorithm>
#include <cmath>

#include "text/template/text_functions.h"
#include "text/template/unicode.h"

namespace tandem::chat {
namespace {

Error too_large(std::string_view op) {
  return unsupported("chat_c5", "the result of {} does not fit in 64 bits", op);
}

Error no_operator(std::string_view op, const Value& left, const Value& right) {
  return invalid("chat_c3", "{} {} {} has no meaning", type_name(left), op, type_name(right));
}

Result<Value> whole_power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return invalid("chat_c3", "0 to a negative power");
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  if (base == 0 || base == 1) return Value(exponent == 0 ? int64_t{1} : base);
  if (base == -1) return Value(exponent % 2 == 0 ? int64_t{1} : int64_t{-1});
  int64_t result = 1;
  for (; exponent > 0; --exponent)
    if (__builtin_mul_overflow(result, base, &result)) return too_large("**");
  return Value(result);
}

Result<Value> divide_down(std::string_view op, int64_t a, int64_t b) {
  if (b == 0) return invalid("chat_c3", "division by zero");
  if (a == INT64_MIN && b == -1) return op == "%" ? Result<Value>(Value(int64_t{0})) : too_large(op);
  const int64_t quotient = a / b - (a % b != 0 && (a % b < 0) != (b < 0) ? 1 : 0);
  return Value(op == "%" ? a - quotient * b : quotient);
}

Result<Value> of_whole(std::string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  if (op == "**") return whole_power(a, b);
  if (op == "//" || op == "%") return divide_down(op, a, b);
  if (op == "/") {
    if (b == 0) return invalid("chat_c3", "division by zero");
    return Value(static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b)));
  }
  const bool overflows = op == "+"   ? __builtin_add_overflow(a, b, &result)
                         : op == "-" ? __builtin_sub_overflow(a, b, &result)
                                     : __builtin_mul_overflow(a, b, &result);
  return overflows ? Result<Value>(too_large(op)) : Value(result);
}

Result<Value> of_real(std::string_view op, double a, double b) {
  if (op == "+") return Value(a + b);
  if (op == "-") return Value(a - b);
  if (op == "*") return Value(a * b);
  if (op == "**") {
    if (a == 0 && b < 0) return invalid("chat_c3", "0 to a negative power");
    if (a < 0 && std::isfinite(b) && b != std::floor(b))
      return unsupported("chat_c5", "a root of a negative number");
    const double result = std::pow(a, b);
    if (std::isinf(result) && std::isfinite(a) && std::isfinite(b))
      return invalid("chat_c3", "the result of ** is too large");
    return Value(result);
  }
  if (b == 0) return invalid("chat_c3", "division by zero");
  if (op == "/") return Value(a / b);
  double rest = std::fmod(a, b);
  if (rest != 0 ? (rest < 0) != (b < 0) : false) rest += b;
  if (rest == 0) rest = std::copysign(0.0, b);
  if (op == "%") return Value(rest);
  const double quotient = (a - rest) / b, down = std::floor(quotient);
  if (quotient == 0) return Value(std::copysign(0.0, a / b));
  return Value(quotient - down > 0.5 ? down + 1 : down);
}

Result<Value> repeated(Interpreter& in, const Value& value, int64_t count) {
  if (value.is(Kind::text)) {
    Writer writer(in);
    for (int64_t i = 0; i < count && !value.text().empty() && !writer.is_full(); ++i) {
      TANDEM_CHECK(in.step());
      writer.put(value.text());
    }
    TANDEM_TRY(std::string text, writer.finish());
    return in.text(std::move(text), value.is_markup());
  }
  const Sequence& sequence = value.sequence();
  const size_t size = sequence.items.size();
  if (count > 0 && size > in.memory().limit / sizeof(Value) / static_cast<uint64_t>(count))
    return invalid("chat_c2", "a list of {} items {} times is too long", size, count);
  TANDEM_CHECK(in.step(count > 0 ? size * static_cast<uint64_t>(count) / 8 : 0));
  std::vector<Value> items;
  for (int64_t i = 0; i < count && size > 0; ++i)
    items.insert(items.end(), sequence.items.begin(), sequence.items.end());
  return in.sequence(std::move(items), sequence.kind);
}

bool can_repeat(const Value& value) { return value.is(Kind::text) || value.is_list_or_tuple(); }

Result<Value> joined(Interpreter& in, const Value& left, const Value& right) {
  const bool is_markup = left.is_markup() || right.is_markup();
  const auto part = [&](const Value& value) {
    return is_markup && !value.is_markup() ? escape_html(value.text()) : value.text();
  };
  Writer writer(in);
  writer.put(part(left));
  writer.put(part(right));
  TANDEM_TRY(std::string text, writer.finish());
  return in.text(std::move(text), is_markup);
}

/// A tuple holds one value a place; anything else is the one value, which a container need not be used for.
Result<Value> formatted(Interpreter& in, const Value& format, const Value& value) {
  const bool is_tuple = value.is(Kind::sequence) && value.sequence().kind == SequenceKind::tuple;
  const std::vector<Value> values = is_tuple ? value.sequence().items : std::vector<Value>{value};
  const bool is_container =
      value.is(Kind::dict) || value.is(Kind::undefined) ||
      (value.is(Kind::sequence) && !is_tuple && value.sequence().kind < SequenceKind::keys);
  TANDEM_TRY(std::string text, percent_format(in, format.text(), values, is_container ? &value : nullptr));
  return in.text(std::move(text), format.is_markup());
}

Result<bool> ordered(Interpreter& in, std::string_view op, const Value& left, const Value& right) {
  const bool has_nan = (left.is(Kind::real) && std::isnan(left.number())) ||
                       (right.is(Kind::real) && std::isnan(right.number()));
  if (has_nan && left.is_number() && right.is_number()) return false;
  if (op == "<") return less(left, right, in.work());
  if (op == ">") return less(right, left, in.work());
  TANDEM_TRY(const bool beyond, op == "<=" ? less(right, left, in.work()) : less(left, right, in.work()));
  return !beyond;
}

}  // namespace

Result<Value> add(Interpreter& in, const Value& left, const Value& right) {
  if (left.is(Kind::text) && right.is(Kind::text)) return joined(in, left, right);
  if (left.is_list_or_tuple() && right.is_list_or_tuple() && left.sequence().kind == right.sequence().kind) {
    std::vector<Value> items = left.sequence().items;
    items.insert(items.end(), right.sequence().items.begin(), right.sequence().items.end());
    return in.sequence(std::move(items), left.sequence().kind);
  }
  return no_operator("+", left, right);
}

Result<Value> arithmetic(Interpreter& in, std::string_view op, const Value& left, const Value& right) {
  if (op == "%" && left.is(Kind::text)) return formatted(in, left, right);
  for (const Value* value : {&left, &right})
    if (value->is(Kind::undefined)) return undefined_error(*value);
  if (left.is_whole() && right.is_whole()) return of_whole(op, left.whole(), right.whole());
  if (left.is_number() && right.is_number()) return of_real(op, left.number(), right.number());
  if (op == "+") return add(in, left, right);
  if (op == "*" && can_repeat(left) && right.is_whole()) return repeated(in, left, right.whole());
  if (op == "*" && can_repeat(right) && left.is_whole()) return repeated(in, right, left.whole());
  return no_operator(op, left, right);
}

Result<bool> compare(Interpreter& in, std::string_view op, const Value& left, const Value& right) {
  if (op == "==") return equal(left, right, in.work());
  if (op == "!=") return !equal(left, right, in.work());
  if (op == "in") return in.contains(right, left);
  if (op != "not in") return ordered(in, op, left, right);
  TANDEM_TRY(const bool inside, in.contains(right, left));
  return !inside;
}

namespace {

struct Steps {
  int64_t from = 0, to = 0, step = 1;
};

/// Python's slice.indices().
Steps resolved(const std::optional<int64_t> (&bounds)[3], int64_t count) {
  Steps steps;
  steps.step = bounds[2].value_or(1);
  const int64_t lowest = steps.step < 0 ? -1 : 0, highest = steps.step < 0 ? count - 1 : count;
  const auto place = [&](std::optional<int64_t> bound, int64_t missing) {
    if (!bound) return missing;
    const int64_t at = *bound < 0 ? *bound + count : *bound;
    return std::clamp(at, lowest, highest);
  };
  steps.from = place(bounds[0], steps.step < 0 ? highest : lowest);
  steps.to = place(bounds[1], steps.step < 0 ? lowest : highest);
  return steps;
}

std::vector<int64_t> indices(const Steps& steps) {
  std::vector<int64_t> all;
  const auto goes_on = [&](int64_t at) { return steps.step > 0 ? at < steps.to : at > steps.to; };
  for (int64_t at = steps.from; goes_on(at);) {
    all.push_back(at);
    if (__builtin_add_overflow(at, steps.step, &at)) break;
  }
  return all;
}

Result<Value> text_slice(Interpreter& in, const Value& value, const Steps& steps) {
  const std::string& all = value.text();
  if (steps.step == 1) {
    const size_t from = byte_of(all, static_cast<size_t>(steps.from));
    const auto count = static_cast<size_t>(std::max<int64_t>(0, steps.to - steps.from));
    return in.text(all.substr(from, byte_of(std::string_view(all).substr(from), count)), value.is_markup());
  }
  const std::vector<std::string_view> pieces = characters(all);
  std::string picked;
  for (int64_t at : indices(steps)) picked += pieces[static_cast<size_t>(at)];
  return in.text(std::move(picked), value.is_markup());
}

Result<Value> range_slice(Interpreter& in, const Sequence& range, const Steps& steps) {
  const auto at = [&](int64_t index) { return range.start + index * range.step; };
  int64_t step = 0;
  if (__builtin_mul_overflow(range.step, steps.step, &step)) return too_large("a slice");
  return in.range(at(steps.from), at(steps.to), step);
}

}  // namespace

Result<Value> slice(Interpreter& in, const Value& value, const std::optional<int64_t> (&bounds)[3]) {
  if (value.is(Kind::undefined)) return undefined_error(value);
  const bool is_view = value.is(Kind::sequence) && value.sequence().kind >= SequenceKind::keys;
  if ((!value.is(Kind::sequence) && !value.is(Kind::text)) || is_view)
    return invalid("chat_c3", "{} cannot be sliced", type_name(value));
  if (bounds[2] == 0) return invalid("chat_c3", "a slice with a step of 0");
  TANDEM_TRY(const int64_t count, in.length(value));
  const Steps steps = resolved(bounds, count);
  TANDEM_CHECK(in.step(1 + static_cast<uint64_t>(count) / 8));
  if (value.is(Kind::text)) return text_slice(in, value, steps);
  const Sequence& sequence = value.sequence();
  if (sequence.kind == SequenceKind::range) return range_slice(in, sequence, steps);
  std::vector<Value> picked;
  for (int64_t at : indices(steps)) picked.push_back(sequence.items[static_cast<size_t>(at)]);
  return in.sequence(std::move(picked), sequence.kind);
}

}  // namespace tandem::chat
