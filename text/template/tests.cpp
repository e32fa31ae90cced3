// Tests: `value is NAME`.

#include <array>

#include "text/template/interpreter.h"
#include "text/template/unicode.h"

namespace tandem::chat {
namespace {

template <Kind kind>
Result<Value> has_kind(Call& call) {
  return Value(call.self.is(kind));
}

Result<Value> defined(Call& call) { return Value(!call.self.is(Kind::undefined)); }
Result<Value> number(Call& call) { return Value(call.self.is_number()); }
Result<Value> is_true_itself(Call& call) {
  return Value(call.self.is(Kind::boolean) && call.self.as<bool>());
}
Result<Value> is_false_itself(Call& call) {
  return Value(call.self.is(Kind::boolean) && !call.self.as<bool>());
}
Result<Value> escaped(Call& call) { return Value(call.self.is_markup()); }

Result<Value> iterable(Call& call) {
  switch (call.self.kind()) {
    case Kind::undefined:
    case Kind::text:
    case Kind::sequence:
    case Kind::dict:
    case Kind::iterator:
    case Kind::loop:
      return Value(true);
    default:
      return Value(false);
  }
}

/// Has a length and items by number or key.
Result<Value> is_sequence(Call& call) {
  const Value& self = call.self;
  if (self.is(Kind::sequence)) return Value(self.sequence().kind < SequenceKind::keys);
  return Value(self.is(Kind::undefined) || self.is(Kind::text) || self.is(Kind::dict));
}

Result<Value> callable(Call& call) {
  switch (call.self.kind()) {
    case Kind::undefined:
    case Kind::macro:
    case Kind::loop:
    case Kind::function:
    case Kind::method:
      return Value(true);
    default:
      return Value(false);
  }
}

Result<Value> remainder(Call& call, const Value& divisor, int64_t wanted) {
  TANDEM_TRY(const Value rest, arithmetic(call.in, "%", call.self, divisor));
  return Value(equal(rest, Value(wanted), call.in.work()));
}
Result<Value> odd(Call& call) { return remainder(call, Value(int64_t{2}), 1); }
Result<Value> even(Call& call) { return remainder(call, Value(int64_t{2}), 0); }
Result<Value> divisible_by(Call& call) { return remainder(call, call[0], 0); }

template <char first, char second = '\0'>
Result<Value> compared(Call& call) {
  constexpr char kOperator[] = {first, second, '\0'};
  TANDEM_TRY(const bool holds, compare(call.in, kOperator, call.self, call[0]));
  return Value(holds);
}

Result<Value> in(Call& call) {
  TANDEM_TRY(const bool holds, call.in.contains(call[0], call.self));
  return Value(holds);
}

/// Python's `is`: constants, and one and the same object.
Result<Value> same_as(Call& call) {
  const Value &self = call.self, &other = call[0];
  if (self.kind() != other.kind()) return Value(false);
  if (self.is(Kind::text)) return Value(&self.text() == &other.text() || self.text() == other.text());
  if (self.is(Kind::sequence)) return Value(&self.sequence() == &other.sequence());
  if (self.is(Kind::dict)) return Value(&self.dict() == &other.dict());
  return Value(equal(self, other, call.in.work()));
}

/// At least one letter, and all letters of that case.
Result<Value> has_case(Call& call, std::string (*to_case)(std::string_view)) {
  TANDEM_TRY(const std::string text, call.in.str(call.self));
  bool has_letter = false;
  for (size_t at = 0; at < text.size();) has_letter |= is_cased(next(text, at));
  return Value(has_letter && to_case(text) == text);
}
Result<Value> lower(Call& call) { return has_case(call, to_lower); }
Result<Value> upper(Call& call) { return has_case(call, to_upper); }

Result<Value> is_filter(Call& call) {
  return Value(call.self.is(Kind::text) && find_row(filters(), call.self.text()) != nullptr);
}
Result<Value> is_test(Call& call) {
  return Value(call.self.is(Kind::text) && find_row(tests(), call.self.text()) != nullptr);
}

constexpr auto kTests = std::to_array<Row>({
    {"defined", "", defined},
    {"undefined", "", has_kind<Kind::undefined>},
    {"none", "", has_kind<Kind::none>},
    {"string", "", has_kind<Kind::text>},
    {"mapping", "", has_kind<Kind::dict>},
    {"iterable", "", iterable},
    {"sequence", "", is_sequence},
    {"number", "", number},
    {"integer", "", has_kind<Kind::integer>},
    {"float", "", has_kind<Kind::real>},
    {"boolean", "", has_kind<Kind::boolean>},
    {"true", "", is_true_itself},
    {"false", "", is_false_itself},
    {"callable", "", callable},
    {"escaped", "", escaped},
    {"lower", "", lower},
    {"upper", "", upper},
    {"odd", "", odd},
    {"even", "", even},
    {"divisibleby", "num", divisible_by},
    {"eq", "other", compared<'=', '='>},
    {"equalto", "other", compared<'=', '='>},
    {"==", "other", compared<'=', '='>},
    {"ne", "other", compared<'!', '='>},
    {"!=", "other", compared<'!', '='>},
    {"lt", "other", compared<'<'>},
    {"lessthan", "other", compared<'<'>},
    {"<", "other", compared<'<'>},
    {"le", "other", compared<'<', '='>},
    {"<=", "other", compared<'<', '='>},
    {"gt", "other", compared<'>'>},
    {"greaterthan", "other", compared<'>'>},
    {">", "other", compared<'>'>},
    {"ge", "other", compared<'>', '='>},
    {">=", "other", compared<'>', '='>},
    {"in", "seq", in},
    {"sameas", "other", same_as},
    {"filter", "", is_filter},
    {"test", "", is_test},
});

}  // namespace

std::span<const Row> tests() { return kTests; }

}  // namespace tandem::chat
