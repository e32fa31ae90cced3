#pragma once
// Runs a template's tree over values. It holds all that a template can reach: its own variables, what it is
// given, and the rows of rows.h. Steps, depth, memory and output are limited; each limit ends the run with
// chat_c2.

#include <ctime>

#include "text/template/rows.h"

namespace tandem::chat {

struct Limits {
  uint64_t max_steps = 20'000'000;     ///< nodes run, items walked, and 256 bytes of text handled each
  size_t max_output_bytes = 64 << 20;  ///< of the result, and of any one text
  size_t max_memory_bytes = size_t{256} << 20;  ///< held by all values at one time
  int max_depth = 400;                          ///< of nodes within nodes, macros' bodies included
};

/// Variables of one piece of the template, and where to look further.
struct Scope {
  std::shared_ptr<Scope> outer;
  std::vector<std::pair<std::string, Value>> variables;
};

/// Text that is being made, within the limits. Past them it stays as it is, and finish() is the error.
class Writer {
 public:
  explicit Writer(Interpreter& in);
  void put(std::string_view text);
  void put(char c) { put(std::string_view(&c, 1)); }
  bool is_full() const { return is_full_; }
  Result<std::string> finish();

 private:
  Interpreter& in_;
  std::string text_;
  Share share_;
  bool is_full_ = false;
};

class Interpreter {
 public:
  Interpreter(const SyntaxTree& tree, const Limits& limits, std::tm now);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  /// Sets a variable of the whole template.
  void set(std::string name, Value value);
  /// Runs the template.
  Result<std::string> render();

  // Making values. Errors: chat_c2 past a limit.

  Result<Value> text(std::string text, bool is_markup = false);
  Result<Value> sequence(std::vector<Value> items, SequenceKind kind = SequenceKind::list);
  Result<Value> range(int64_t start, int64_t stop, int64_t step);
  /// Later entries replace earlier ones of the same key. Errors: chat_c3 for a key that is a list or a dict.
  Result<Value> dict(std::vector<std::pair<Value, Value>> entries);
  Result<Value> iterator(std::vector<Value> items, std::string kind = "generator");
  Result<Value> name_space(std::vector<std::pair<std::string, Value>> entries);
  Result<Value> from_json(const Json& json);

  // What all of the language is made of.

  Status step(uint64_t count = 1);
  Status handle_bytes(size_t bytes) { return step(1 + bytes / 256); }
  /// The items of anything that can be walked. Errors: chat_c3.
  Result<std::vector<Value>> walk(const Value& value);
  Result<int64_t> length(const Value& value);
  Result<Value> attribute(const Value& value, const std::string& name);
  Result<Value> item(const Value& value, const Value& key);
  /// Of dotted parts, whole numbers as indices: "function.name", "0.id".
  Result<Value> item_at_path(const Value& value, const Value& path);
  Result<bool> contains(const Value& container, const Value& value);
  Result<Value> call(const Value& callee, Arguments arguments);
  Result<Value> filter(const std::string& name, const Value& value, Arguments arguments);
  Result<bool> test(const std::string& name, const Value& value, Arguments arguments);
  Result<std::string> str(const Value& value);
  Result<std::string> repr(const Value& value);

  Work& work() { return work_; }
  Memory& memory() { return memory_; }
  const Limits& limits() const { return limits_; }
  const std::tm& now() const { return now_; }

 private:
  enum class Flow : uint8_t { on, break_loop, continue_loop };
  class Inside;

  Result<Flow> run(NodeId id);
  Result<Flow> run_node(const Node& node);
  Result<Flow> run_block(const Node& node);
  Result<Flow> run_data(const Node& node);
  Result<Flow> run_output(const Node& node);
  Result<Flow> run_condition(const Node& node);
  Result<Flow> run_loop(const Node& node);
  Result<Flow> run_assign(const Node& node);
  Result<Flow> run_assign_block(const Node& node);
  Result<Flow> run_macro(const Node& node);
  Result<Flow> run_call_block(const Node& node);
  Result<Flow> run_filter_block(const Node& node);
  Result<Flow> run_with(const Node& node);
  Result<Flow> run_scope(const Node& node);
  Result<Flow> run_in_new_scope(NodeId body);
  Result<Flow> run_loop_body(const Node& node, const std::shared_ptr<Loop>& loop);
  Result<bool> passes_filter(const Node& node, const Value& item);
  /// What a body writes, instead of writing it; in a scope of its own.
  Result<std::string> captured(NodeId body);

  Result<Value> evaluate(NodeId id);
  Result<Value> evaluate_node(const Node& node);
  Result<Value> evaluate_constant(const Node& node);
  Result<Value> evaluate_name(const Node& node);
  Result<Value> evaluate_items(const Node& node);
  Result<Value> evaluate_dict(const Node& node);
  Result<Value> evaluate_attribute(const Node& node);
  Result<Value> evaluate_item(const Node& node);
  Result<Value> evaluate_call(const Node& node);
  Result<Value> evaluate_filter(const Node& node);
  Result<Value> evaluate_test(const Node& node);
  Result<Value> evaluate_sign(const Node& node);
  Result<Value> evaluate_binary(const Node& node);
  Result<Value> evaluate_concat(const Node& node);
  Result<Value> evaluate_compare(const Node& node);
  Result<Value> evaluate_logic(const Node& node);
  Result<Value> evaluate_choice(const Node& node);
  Result<Value> evaluate_slice(const Value& value, const Node& node);
  Result<Arguments> evaluate_arguments(const Node& node);
  Result<Value> call_macro(const Macro& macro, Arguments arguments);
  Status bind_parameters(const Node& node, const std::string& name, Arguments& arguments);
  Status assign(NodeId target, Value value);
  void set_here(const std::string& name, Value value);
  Result<Value> macro_value(const Node& node);
  /// Bytes that stay held to the end.
  Status hold(size_t bytes);
  Status fits(size_t bytes) const;

  const SyntaxTree& tree_;
  Limits limits_;
  std::tm now_;
  Memory memory_;
  Work work_;
  int depth_ = 0;
  int loop_level_ = 0;
  // Namespaces and the scopes of macros may hold each other: they are emptied at the end.
  std::vector<std::shared_ptr<Namespace>> namespaces_;
  std::vector<std::shared_ptr<Scope>> macro_scopes_;
  std::shared_ptr<Scope> scope_;
  Writer* output_ = nullptr;
  const Value* filter_input_ = nullptr;  // of a filter block
};

// operators.cpp
Result<Value> add(Interpreter& in, const Value& left, const Value& right);
Result<Value> arithmetic(Interpreter& in, std::string_view op, const Value& left, const Value& right);
Result<bool> compare(Interpreter& in, std::string_view op, const Value& left, const Value& right);
Result<Value> slice(Interpreter& in, const Value& value, const std::optional<int64_t> (&bounds)[3]);

// printing.cpp
/// As Python prints a float: the shortest digits that read back equal.
std::string print_real(double value);
/// json.dumps as transformers calls it.
struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<std::string> indent;
  std::string item_separator = ", ", key_separator = ": ";
  bool sort_keys = false;
};
Result<std::string> to_json(Interpreter& in, const Value& value, const JsonStyle& style);
/// & < > " ' as HTML spells them.
std::string escape_html(std::string_view text);

}  // namespace tandem::chat
