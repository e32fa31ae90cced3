#include "text/template/value.h"

#include <algorithm>
#include <cmath>
namespace tandem::chat {

bool Value::is_list_or_tuple() const {
  return is(Kind::sequence) &&
         (sequence().kind == SequenceKind::list || sequence().kind == SequenceKind::tuple);
}

int Value::depth() const {
  switch (kind()) {
    case Kind::sequence:
      return sequence().depth;
    case Kind::dict:
      return dict().depth;
    case Kind::iterator:
      return as<std::shared_ptr<Iterator>>()->depth;
    case Kind::loop:
      return 1 + as<std::shared_ptr<Loop>>()->items->depth;
    case Kind::method:
      return 1 + as<Method>().self->depth();
    default:
      return 0;
  }
}

Value undefined(std::string why) { return Undefined{std::make_shared<const std::string>(std::move(why))}; }

bool is_true(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
    case Kind::integer:
      return value.whole() != 0;
    case Kind::real:
      return value.number() != 0;
    case Kind::text:
      return !value.text().empty();
    case Kind::sequence:
      return !value.sequence().items.empty();
    case Kind::dict:
      return !value.dict().entries.empty();
    default:
      return true;
  }
}

std::string_view type_name(const Value& value) {
  constexpr std::string_view kNames[] = {"Undefined", "NoneType",
                                         "bool",      "int",
                                         "float",     "str",
                                         "",          "dict",
                                         "generator", "Namespace",
                                         "Macro",     "LoopContext",
                                         "function",  "builtin_function_or_method"};
  constexpr std::string_view kSequences[] = {"list",      "tuple",       "range",
                                             "dict_keys", "dict_values", "dict_items"};
  if (value.is(Kind::sequence)) return kSequences[static_cast<size_t>(value.sequence().kind)];
  if (value.is_markup()) return "Markup";
  return kNames[static_cast<size_t>(value.kind())];
}

namespace {

/// -1, 0, 1; 2 where one is no number. Whole and real numbers are compared exactly.
int compare_numbers(const Value& left, const Value& right) {
  if (left.is_whole() && right.is_whole())
    return left.whole() < right.whole() ? -1 : left.whole() > right.whole();
  const auto wide = [](const Value& v) {
    return v.is(Kind::real) ? static_cast<long double>(v.number()) : static_cast<long double>(v.whole());
  };
  const long double a = wide(left), b = wide(right);
  if (std::isnan(a) || std::isnan(b)) return 2;
  return a < b ? -1 : a > b;
}

bool equal_dicts(const Dict& left, const Dict& right, Work& work) {
  if (left.entries.size() != right.entries.size()) return false;
  return std::all_of(left.entries.begin(), left.entries.end(), [&](const auto& entry) {
    const Value* other = find(right, entry.first, work);
    return other && equal(entry.second, *other, work);
  });
}

bool equal_sequences(const Sequence& left, const Sequence& right, Work& work) {
  const auto same = [&](const Value& a, const Value& b) { return equal(a, b, work); };
  return left.kind == right.kind && left.kind != SequenceKind::values &&
         std::equal(left.items.begin(), left.items.end(), right.items.begin(), right.items.end(), same);
}

}  // namespace

bool equal(const Value& left, const Value& right, Work& work) {
  if (!work.take()) return false;
  if (left.is_number() && right.is_number()) return compare_numbers(left, right) == 0;
  if (left.kind() != right.kind()) return false;
  switch (left.kind()) {
    case Kind::undefined:
    case Kind::none:
      return true;
    case Kind::text:
      return left.text() == right.text();
    case Kind::sequence:
      return &left.sequence() == &right.sequence() ||
             equal_sequences(left.sequence(), right.sequence(), work);
    case Kind::dict:
      return &left.dict() == &right.dict() || equal_dicts(left.dict(), right.dict(), work);
    case Kind::iterator:
      return left.as<std::shared_ptr<Iterator>>() == right.as<std::shared_ptr<Iterator>>();
    case Kind::name_space:
      return left.as<std::shared_ptr<Namespace>>() == right.as<std::shared_ptr<Namespace>>();
    case Kind::macro:
      return left.as<std::shared_ptr<const Macro>>() == right.as<std::shared_ptr<const Macro>>();
    case Kind::loop:
      return left.as<std::shared_ptr<Loop>>() == right.as<std::shared_ptr<Loop>>();
    case Kind::function:
      return left.as<const Row*>() == right.as<const Row*>();
    case Kind::method:
      return left.as<Method>().row == right.as<Method>().row &&
             equal(*left.as<Method>().self, *right.as<Method>().self, work);
    default:
      return false;
  }
}

Result<bool> less(const Value& left, const Value& right, Work& work) {
  work.take();
  if (left.is_number() && right.is_number()) return compare_numbers(left, right) == -1;
  if (left.is(Kind::text) && right.is(Kind::text)) return left.text() < right.text();
  if (left.is_list_or_tuple() && right.is_list_or_tuple() && left.sequence().kind == right.sequence().kind) {
    const auto &a = left.sequence().items, &b = right.sequence().items;
    for (size_t i = 0; i < a.size() && i < b.size(); ++i)
      if (!equal(a[i], b[i], work)) return less(a[i], b[i], work);
    return a.size() < b.size();
  }
  for (const Value* value : {&left, &right})
    if (value->is(Kind::undefined)) return undefined_error(*value);
  return invalid("chat_c3", "{} and {} have no order", type_name(left), type_name(right));
}

bool is_hashable(const Value& value, Work& work) {
  if (value.is(Kind::dict) || !work.take()) return false;
  if (!value.is(Kind::sequence)) return true;
  const Sequence& sequence = value.sequence();
  if (sequence.kind != SequenceKind::tuple)
    return sequence.kind == SequenceKind::range || sequence.kind == SequenceKind::values;
  return std::all_of(sequence.items.begin(), sequence.items.end(),
                     [&](const Value& item) { return is_hashable(item, work); });
}

const Value* find(const Dict& dict, const Value& key, Work& work) {
  work.take(1 + dict.entries.size() / 16);
  for (const auto& [name, value] : dict.entries)
    if (name.kind() == key.kind() || (name.is_number() && key.is_number()))
      if (equal(name, key, work)) return &value;
  return nullptr;
}

Error undefined_error(const Value& value) {
  const auto& why = value.as<Undefined>().why;
  return invalid("chat_c3", "{}", why ? *why : "an undefined value");
}

}  // namespace tandem::chat
