#pragma once
// A chat template as a plain tree: nodes in one array that name each other by index.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tandem::chat {

using NodeId = uint32_t;
constexpr NodeId kNoNode = UINT32_MAX;

enum class NodeKind : uint8_t {
  // Statements.
  block,         ///< items: statements
  data,          ///< text: written as it is
  output,        ///< a: expression
  condition,     ///< items: test, block, test, block, ...; b: block of else
  loop,          ///< a: target, b: iterable, c: filter, body, otherwise; flag: the body speaks of `loop`
  assign,        ///< a: target, b: value
  assign_block,  ///< a: target, b: filter or none, body
  macro,  ///< text: name, words: parameters, others: defaults of the last ones, body, integer: MacroNames
  call_block,    ///< a: call; b: macro `caller`
  filter_block,  ///< a: filter, body
  with,          ///< items: targets, others: values, body
  scope,         ///< body, with variables of its own
  break_loop,
  continue_loop,
  // Expressions.
  constant_none,
  constant_bool,     ///< integer: 0 or 1
  constant_integer,  ///< integer
  constant_real,     ///< real
  constant_string,   ///< text
  name,              ///< text
  namespace_target,  ///< text: namespace, more: attribute
  list,              ///< items
  tuple,             ///< items
  dict,              ///< items: keys, others: values
  attribute,         ///< a: object, text: name
  item,              ///< a: object, b: index
  slice,             ///< a, b, c: each may be missing
  call,              ///< a: callee, arguments
  filter,            ///< text: name, a: input (none: the block's text), arguments
  test,              ///< text: name, a: value, arguments
  negation,          ///< a
  minus,             ///< a
  plus,              ///< a
  binary,            ///< text: operator, a, b
  concat,            ///< items
  compare,           ///< a, then operators (words) and items in turn
  both,              ///< a and b
  either,            ///< a or b
  choice,            ///< a if b else c
};

/// Names with a meaning of their own that the body of a macro uses.
enum MacroNames : int64_t { kVarargs = 1, kKwargs = 2, kCaller = 4 };

struct Node {
  NodeKind kind = NodeKind::block;
  int line = 1;
  int depth = 1;  ///< of the tree below
  bool flag = false;
  std::string text, more;
  int64_t integer = 0;
  double real = 0;
  NodeId a = kNoNode, b = kNoNode, c = kNoNode, body = kNoNode, otherwise = kNoNode;
  std::vector<NodeId> items, others;                  ///< of a call: arguments by position
  std::vector<std::pair<std::string, NodeId>> named;  ///< of a call: arguments by name
  NodeId star = kNoNode, double_star = kNoNode;       ///< of a call: *list, **mapping
  std::vector<std::string> words;                     ///< of a compare: operators; of a macro: parameters
};

struct SyntaxTree {
  std::vector<Node> nodes;
  NodeId root = kNoNode;
  const Node& operator[](NodeId id) const { return nodes[id]; }
};

}  // namespace tandem::chat
