#pragma once
// What templates can call: one row a filter, a test, a function and a method. These tables are all that a
// template reaches; docs/chat_templates.md lists them, and a test holds it to that.

#include <span>

#include "text/template/value.h"

namespace tandem::chat {

class Interpreter;

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

/// One call of a row: its input and the arguments, by the row's parameters.
struct Call {
  Interpreter& in;
  const Value& self;  ///< what is filtered or tested, or whose method it is; undefined for a function
  std::vector<std::optional<Value>> slots;  ///< one a parameter; empty where it was left out
  Arguments arguments;                      ///< all of them, for a row whose parameters are "*"

  bool has(size_t i) const { return slots[i].has_value(); }
  const Value& operator[](size_t i) const { return *slots[i]; }
};

struct Row {
  std::string_view name;
  std::string_view
      parameters;  ///< "old new [count]": names in order, those that may be left out in brackets; "*"
  Result<Value> (*run)(Call&);
};

std::span<const Row> filters();
std::span<const Row> tests();
std::span<const Row> functions();
std::span<const Row> methods_of(const Value& value);  ///< empty for types without
std::span<const Row> text_methods();
std::span<const Row> list_methods();
std::span<const Row> dict_methods();
/// Methods that Python has and that would change a value: using one is an error.
bool changes_its_value(const Value& value, std::string_view method);

const Row* find_row(std::span<const Row> rows, std::string_view name);
/// Sorts the arguments into the row's parameters. Errors: chat_c3 for one too many, missing, unknown or
/// twice.
Result<std::vector<std::optional<Value>>> bind(const Row& row, Arguments& arguments);

}  // namespace tandem::chat
