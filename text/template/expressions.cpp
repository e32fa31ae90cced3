// Expressions.

#include <algorithm>

#include "text/template/interpreter.h"

namespace tandem::chat {
namespace {

std::string line_of(const Node& node) { return fmt::format("line {}", node.line); }

}  // namespace

Result<Value> Interpreter::evaluate(NodeId id) {
  const Node& node = tree_[id];
  ++depth_;
  if (depth_ > limits_.max_depth) {
    --depth_;
    return invalid("chat_c2", "calls nested deeper than {} nodes", limits_.max_depth).at(line_of(node));
  }
  Result<Value> value = evaluate_node(node);
  --depth_;
  if (!value.ok()) return std::move(value).error().at(line_of(node));
  return value;
}

Result<Value> Interpreter::evaluate_node(const Node& node) {
  TANDEM_CHECK(step());
  switch (node.kind) {
    case NodeKind::constant_none:
    case NodeKind::constant_bool:
    case NodeKind::constant_integer:
    case NodeKind::constant_real:
    case NodeKind::constant_string:
      return evaluate_constant(node);
    case NodeKind::name:
      return evaluate_name(node);
    case NodeKind::list:
    case NodeKind::tuple:
      return evaluate_items(node);
    case NodeKind::dict:
      return evaluate_dict(node);
    case NodeKind::attribute:
      return evaluate_attribute(node);
    case NodeKind::item:
      return evaluate_item(node);
    case NodeKind::call:
      return evaluate_call(node);
    case NodeKind::filter:
      return evaluate_filter(node);
    case NodeKind::test:
      return evaluate_test(node);
    case NodeKind::minus:
    case NodeKind::plus:
      return evaluate_sign(node);
    case NodeKind::binary:
      return evaluate_binary(node);
    case NodeKind::concat:
      return evaluate_concat(node);
    case NodeKind::compare:
      return evaluate_compare(node);
    case NodeKind::negation:
    case NodeKind::both:
    case NodeKind::either:
      return evaluate_logic(node);
    case NodeKind::choice:
      return evaluate_choice(node);
    case NodeKind::slice:
      return invalid("chat_c3", "a slice among several indices");
    default:
      return bug("", "a statement where an expression was expected");
  }
}

Result<Value> Interpreter::evaluate_constant(const Node& node) {
  switch (node.kind) {
    case NodeKind::constant_none:
      return Value(None{});
    case NodeKind::constant_bool:
      return Value(node.integer != 0);
    case NodeKind::constant_integer:
      return Value(node.integer);
    case NodeKind::constant_real:
      return Value(node.real);
    default:
      return text(node.text);
  }
}

Result<Value> Interpreter::evaluate_name(const Node& node) {
  for (const Scope* scope = scope_.get(); scope; scope = scope->outer.get())
    for (const auto& [name, value] : scope->variables)
      if (name == node.text) return value;
  if (const Row* function = find_row(functions(), node.text)) return Value(function);
  return undefined(fmt::format("\"{}\" is undefined", node.text));
}

Result<Value> Interpreter::evaluate_items(const Node& node) {
  std::vector<Value> items;
  for (NodeId id : node.items) {
    TANDEM_TRY(Value item, evaluate(id));
    items.push_back(std::move(item));
  }
  return sequence(std::move(items), node.kind == NodeKind::tuple ? SequenceKind::tuple : SequenceKind::list);
}

Result<Value> Interpreter::evaluate_dict(const Node& node) {
  std::vector<std::pair<Value, Value>> entries;
  for (size_t i = 0; i < node.items.size(); ++i) {
    TANDEM_TRY(Value key, evaluate(node.items[i]));
    TANDEM_TRY(Value value, evaluate(node.others[i]));
    entries.emplace_back(std::move(key), std::move(value));
  }
  return dict(std::move(entries));
}

Result<Value> Interpreter::evaluate_attribute(const Node& node) {
  TANDEM_TRY(const Value value, evaluate(node.a));
  return attribute(value, node.text);
}

Result<Value> Interpreter::evaluate_item(const Node& node) {
  TANDEM_TRY(const Value value, evaluate(node.a));
  const Node& key = tree_[node.b];
  if (key.kind == NodeKind::slice) return evaluate_slice(value, key);
  TANDEM_TRY(const Value index, evaluate(node.b));
  return item(value, index);
}

Result<Value> Interpreter::evaluate_slice(const Value& value, const Node& node) {
  std::optional<int64_t> bounds[3];
  const NodeId ids[3] = {node.a, node.b, node.c};
  for (int i = 0; i < 3; ++i) {
    if (ids[i] == kNoNode) continue;
    TANDEM_TRY(const Value bound, evaluate(ids[i]));
    if (bound.is(Kind::none)) continue;
    if (!bound.is_whole())
      return invalid("chat_c3", "a slice needs whole numbers, found {}", type_name(bound));
    bounds[i] = bound.whole();
  }
  return slice(*this, value, bounds);
}

Result<Arguments> Interpreter::evaluate_arguments(const Node& node) {
  Arguments arguments;
  for (NodeId id : node.items) {
    TANDEM_TRY(Value value, evaluate(id));
    arguments.positional.push_back(std::move(value));
  }
  if (node.star != kNoNode) {
    TANDEM_TRY(const Value more, evaluate(node.star));
    TANDEM_TRY(std::vector<Value> items, walk(more));
    for (Value& value : items) arguments.positional.push_back(std::move(value));
  }
  for (const auto& [name, id] : node.named) {
    TANDEM_TRY(Value value, evaluate(id));
    arguments.named.emplace_back(name, std::move(value));
  }
  if (node.double_star != kNoNode) {
    TANDEM_TRY(const Value more, evaluate(node.double_star));
    if (!more.is(Kind::dict)) return invalid("chat_c3", "** needs a mapping, found {}", type_name(more));
    for (const auto& [name, value] : more.dict().entries) {
      if (!name.is(Kind::text)) return invalid("chat_c3", "names of arguments must be strings");
      arguments.named.emplace_back(name.text(), value);
    }
  }
  return arguments;
}

Result<Value> Interpreter::evaluate_call(const Node& node) {
  TANDEM_TRY(const Value callee, evaluate(node.a));
  TANDEM_TRY(Arguments arguments, evaluate_arguments(node));
  return call(callee, std::move(arguments));
}

Result<Value> Interpreter::evaluate_filter(const Node& node) {
  Value input;
  if (node.a != kNoNode) {
    TANDEM_TRY(input, evaluate(node.a));
  } else if (filter_input_) {
    input = *filter_input_;
  }
  TANDEM_TRY(Arguments arguments, evaluate_arguments(node));
  return filter(node.text, input, std::move(arguments));
}

Result<Value> Interpreter::evaluate_test(const Node& node) {
  TANDEM_TRY(const Value value, evaluate(node.a));
  TANDEM_TRY(Arguments arguments, evaluate_arguments(node));
  TANDEM_TRY(const bool holds, test(node.text, value, std::move(arguments)));
  return Value(holds);
}

Result<Value> Interpreter::evaluate_sign(const Node& node) {
  TANDEM_TRY(const Value value, evaluate(node.a));
  if (value.is(Kind::undefined)) return undefined_error(value);
  if (!value.is_number()) return invalid("chat_c3", "a sign before {}", type_name(value));
  if (node.kind == NodeKind::plus) return value.is_whole() ? Value(value.whole()) : value;
  if (value.is(Kind::real)) return Value(-value.number());
  return arithmetic(*this, "-", Value(int64_t{0}), value);
}

Result<Value> Interpreter::evaluate_binary(const Node& node) {
  TANDEM_TRY(const Value left, evaluate(node.a));
  TANDEM_TRY(const Value right, evaluate(node.b));
  return arithmetic(*this, node.text, left, right);
}

Result<Value> Interpreter::evaluate_concat(const Node& node) {
  Writer writer(*this);
  for (NodeId id : node.items) {
    TANDEM_TRY(const Value value, evaluate(id));
    TANDEM_TRY(const std::string printed, str(value));
    writer.put(printed);
  }
  TANDEM_TRY(std::string joined, writer.finish());
  return text(std::move(joined));
}

Result<Value> Interpreter::evaluate_compare(const Node& node) {
  TANDEM_TRY(Value left, evaluate(node.a));
  bool holds = true;
  for (size_t i = 0; i < node.items.size() && holds; ++i) {
    TANDEM_TRY(Value right, evaluate(node.items[i]));
    TANDEM_TRY(holds, compare(*this, node.words[i], left, right));
    left = std::move(right);
  }
  return Value(holds);
}

Result<Value> Interpreter::evaluate_logic(const Node& node) {
  TANDEM_TRY(const Value left, evaluate(node.a));
  if (node.kind == NodeKind::negation) return Value(!is_true(left));
  const bool decided = is_true(left) == (node.kind == NodeKind::either);
  return decided ? Result<Value>(left) : evaluate(node.b);
}

Result<Value> Interpreter::evaluate_choice(const Node& node) {
  TANDEM_TRY(const Value test, evaluate(node.b));
  if (is_true(test)) return evaluate(node.a);
  if (node.c != kNoNode) return evaluate(node.c);
  return undefined(fmt::format("the if-expression in line {} was false and has no else", node.line));
}

}  // namespace tandem::chat
