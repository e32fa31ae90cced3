// Statements.

#include "text/template/interpreter.h"

#include <algorithm>

namespace tandem::chat {

/// One node deeper.
class Interpreter::Inside {
 public:
  explicit Inside(Interpreter& in) : in_(in) { ++in_.depth_; }
  ~Inside() { --in_.depth_; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  Interpreter& in_;
};

namespace {

std::string line_of(const Node& node) { return fmt::format("line {}", node.line); }

/// Puts a value back at the end.
template <class T>
class Restored {
 public:
  Restored(T& place, T value) : place_(place), before_(std::exchange(place, std::move(value))) {}
  ~Restored() { place_ = std::move(before_); }
  Restored(const Restored&) = delete;
  Restored& operator=(const Restored&) = delete;

 private:
  T& place_;
  T before_;
};

}  // namespace

Interpreter::Interpreter(const SyntaxTree& tree, const Limits& limits, std::tm now)
    : tree_(tree), limits_(limits), now_(now), memory_{0, limits.max_memory_bytes}, work_{limits.max_steps} {
  scope_ = std::make_shared<Scope>();
}

Interpreter::~Interpreter() {
  for (const auto& name_space : namespaces_) name_space->entries.clear();
  for (const auto& scope : macro_scopes_) scope->variables.clear();
  scope_->variables.clear();
}

void Interpreter::set(std::string name, Value value) { set_here(name, std::move(value)); }

Result<std::string> Interpreter::render() {
  // What is given is found everywhere, but the template's own variables come first.
  scope_ = std::make_shared<Scope>(Scope{scope_, {}});
  Writer writer(*this);
  output_ = &writer;
  auto done = run(tree_.root);
  output_ = nullptr;
  if (!done.ok()) return std::move(done).error();
  return writer.finish();
}

Status Interpreter::step(uint64_t count) {
  if (work_.take(count)) return {};
  return invalid("chat_c2", "the template needs more than {} steps", limits_.max_steps);
}

Status Interpreter::fits(size_t bytes) const {
  if (bytes <= memory_.limit && memory_.held <= memory_.limit - bytes) return {};
  return invalid("chat_c2", "the template's values need more than {} bytes", memory_.limit);
}

Status Interpreter::hold(size_t bytes) {
  TANDEM_CHECK(fits(bytes));
  memory_.held += bytes;
  return {};
}

Result<Interpreter::Flow> Interpreter::run(NodeId id) {
  const Node& node = tree_[id];
  const Inside inside(*this);
  if (depth_ > limits_.max_depth)
    return invalid("chat_c2", "calls nested deeper than {} nodes", limits_.max_depth).at(line_of(node));
  Result<Flow> flow = run_node(node);
  if (!flow.ok()) return std::move(flow).error().at(line_of(node));
  return flow;
}

Result<Interpreter::Flow> Interpreter::run_node(const Node& node) {
  TANDEM_CHECK(step());
  switch (node.kind) {
    case NodeKind::block:
      return run_block(node);
    case NodeKind::data:
      return run_data(node);
    case NodeKind::output:
      return run_output(node);
    case NodeKind::condition:
      return run_condition(node);
    case NodeKind::loop:
      return run_loop(node);
    case NodeKind::assign:
      return run_assign(node);
    case NodeKind::assign_block:
      return run_assign_block(node);
    case NodeKind::macro:
      return run_macro(node);
    case NodeKind::call_block:
      return run_call_block(node);
    case NodeKind::filter_block:
      return run_filter_block(node);
    case NodeKind::with:
      return run_with(node);
    case NodeKind::scope:
      return run_in_new_scope(node.body);
    case NodeKind::break_loop:
      return Flow::break_loop;
    case NodeKind::continue_loop:
      return Flow::continue_loop;
    default:
      return bug("", "an expression where a statement was expected");
  }
}

Result<Interpreter::Flow> Interpreter::run_block(const Node& node) {
  for (NodeId id : node.items) {
    TANDEM_TRY(const Flow flow, run(id));
    if (flow != Flow::on) return flow;
  }
  return Flow::on;
}

Result<Interpreter::Flow> Interpreter::run_data(const Node& node) {
  TANDEM_CHECK(handle_bytes(node.text.size()));
  output_->put(node.text);
  return Flow::on;
}

Result<Interpreter::Flow> Interpreter::run_output(const Node& node) {
  TANDEM_TRY(const Value value, evaluate(node.a));
  TANDEM_TRY(const std::string text, str(value));
  output_->put(text);
  if (!output_->is_full()) return Flow::on;
  return output_->finish().error();
}

Result<Interpreter::Flow> Interpreter::run_condition(const Node& node) {
  for (size_t i = 0; i < node.items.size(); i += 2) {
    TANDEM_TRY(const Value test, evaluate(node.items[i]));
    if (is_true(test)) return run(node.items[i + 1]);
  }
  return node.b == kNoNode ? Result<Flow>(Flow::on) : run(node.b);
}

Result<Interpreter::Flow> Interpreter::run_in_new_scope(NodeId body) {
  const Restored scope(scope_, std::make_shared<Scope>(Scope{scope_, {}}));
  return run(body);
}

Result<bool> Interpreter::passes_filter(const Node& node, const Value& item) {
  if (node.c == kNoNode) return true;
  const Restored scope(scope_, std::make_shared<Scope>(Scope{scope_, {}}));
  TANDEM_CHECK(assign(node.a, item));
  TANDEM_TRY(const Value test, evaluate(node.c));
  return is_true(test);
}

Result<Interpreter::Flow> Interpreter::run_loop(const Node& node) {
  TANDEM_TRY(const Value iterable, evaluate(node.b));
  TANDEM_TRY(std::vector<Value> items, walk(iterable));
  // `loop` knows the length and the next item, so a body that speaks of it has the filter run first; in
  // others it runs item by item and may depend on what the body did.
  if (node.flag && node.c != kNoNode) {
    std::vector<Value> kept;
    for (Value& item : items) {
      TANDEM_TRY(const bool passes, passes_filter(node, item));
      if (passes) kept.push_back(std::move(item));
    }
    items = std::move(kept);
  }
  TANDEM_TRY(const Value walked, sequence(std::move(items)));
  auto loop = std::make_shared<Loop>();
  loop->items = walked.as<std::shared_ptr<const Sequence>>();
  loop->level = loop_level_;
  const Restored level(loop_level_, loop_level_ + 1);
  bool ran = false;
  for (; loop->at < loop->items->items.size(); ++loop->at) {
    TANDEM_CHECK(step());
    if (!node.flag) {
      TANDEM_TRY(const bool passes, passes_filter(node, loop->items->items[loop->at]));
      if (!passes) continue;
    }
    ran = true;
    TANDEM_TRY(const Flow flow, run_loop_body(node, loop));
    if (flow == Flow::break_loop) break;
    // What holds on to `loop` keeps the position that it had; the next items get another one.
    if (loop.use_count() > 1) loop = std::make_shared<Loop>(*loop);
  }
  if (ran || node.otherwise == kNoNode) return Flow::on;
  return run_in_new_scope(node.otherwise);
}

Result<Interpreter::Flow> Interpreter::run_loop_body(const Node& node, const std::shared_ptr<Loop>& loop) {
  const Restored scope(scope_, std::make_shared<Scope>(Scope{scope_, {}}));
  if (node.flag) set_here("loop", loop);
  TANDEM_CHECK(assign(node.a, loop->items->items[loop->at]));
  return run(node.body);
}

void Interpreter::set_here(const std::string& name, Value value) {
  auto& variables = scope_->variables;
  const auto found =
      std::find_if(variables.begin(), variables.end(), [&](const auto& v) { return v.first == name; });
  if (found != variables.end())
    found->second = std::move(value);
  else
    variables.emplace_back(name, std::move(value));
}

Status Interpreter::assign(NodeId target, Value value) {
  const Node& node = tree_[target];
  if (node.kind == NodeKind::name) {
    set_here(node.text, std::move(value));
    return {};
  }
  if (node.kind == NodeKind::namespace_target) {
    TANDEM_TRY(const Value holder, evaluate_name(node));
    if (!holder.is(Kind::name_space))
      return invalid("chat_c3", "cannot assign to {}.{}: {} is no namespace", node.text, node.more,
                     node.text);
    if (node.more.starts_with('_'))
      return unsafe("chat_c4", "a namespace's attribute may not begin with \"_\"");
    auto& entries = holder.as<std::shared_ptr<Namespace>>()->entries;
    const auto found = std::find_if(entries.begin(), entries.end(),
                                    [&](const auto& entry) { return entry.first == node.more; });
    if (found != entries.end())
      found->second = std::move(value);
    else
      entries.emplace_back(node.more, std::move(value));
    return {};
  }
  TANDEM_TRY(std::vector<Value> items, walk(value));
  if (items.size() != node.items.size())
    return invalid("chat_c3", "{} values for {} names", items.size(), node.items.size()).at(line_of(node));
  for (size_t i = 0; i < items.size(); ++i) TANDEM_CHECK(assign(node.items[i], std::move(items[i])));
  return {};
}

Result<Interpreter::Flow> Interpreter::run_assign(const Node& node) {
  TANDEM_TRY(Value value, evaluate(node.b));
  TANDEM_CHECK(assign(node.a, std::move(value)));
  return Flow::on;
}

Result<std::string> Interpreter::captured(NodeId body) {
  Writer writer(*this);
  const Restored output(output_, &writer);
  TANDEM_TRY(const Flow flow, run_in_new_scope(body));
  static_cast<void>(flow);  // the parser lets no break out of here
  return writer.finish();
}

Result<Interpreter::Flow> Interpreter::run_assign_block(const Node& node) {
  TANDEM_TRY(std::string written, captured(node.body));
  TANDEM_TRY(Value value, text(std::move(written)));
  if (node.b != kNoNode) {
    const Restored input(filter_input_, static_cast<const Value*>(&value));
    TANDEM_TRY(Value filtered, evaluate(node.b));
    TANDEM_CHECK(assign(node.a, std::move(filtered)));
    return Flow::on;
  }
  TANDEM_CHECK(assign(node.a, std::move(value)));
  return Flow::on;
}

Result<Interpreter::Flow> Interpreter::run_filter_block(const Node& node) {
  TANDEM_TRY(std::string written, captured(node.body));
  TANDEM_TRY(const Value value, text(std::move(written)));
  const Restored input(filter_input_, &value);
  TANDEM_TRY(const Value filtered, evaluate(node.a));
  TANDEM_TRY(const std::string printed, str(filtered));
  output_->put(printed);
  return Flow::on;
}

Result<Interpreter::Flow> Interpreter::run_with(const Node& node) {
  std::vector<Value> values;
  for (NodeId id : node.others) {
    TANDEM_TRY(Value value, evaluate(id));
    values.push_back(std::move(value));
  }
  const Restored scope(scope_, std::make_shared<Scope>(Scope{scope_, {}}));
  for (size_t i = 0; i < values.size(); ++i) TANDEM_CHECK(assign(node.items[i], std::move(values[i])));
  return run(node.body);
}

Result<Value> Interpreter::macro_value(const Node& node) {
  constexpr size_t kBytes = 256;
  TANDEM_CHECK(hold(kBytes));
  if (macro_scopes_.empty() || macro_scopes_.back() != scope_) macro_scopes_.push_back(scope_);
  const auto id = static_cast<NodeId>(&node - tree_.nodes.data());
  return Value(std::shared_ptr<const Macro>(std::make_shared<Macro>(Macro{id, scope_, node.text})));
}

Result<Interpreter::Flow> Interpreter::run_macro(const Node& node) {
  TANDEM_TRY(Value macro, macro_value(node));
  set_here(node.text, std::move(macro));
  return Flow::on;
}

Result<Interpreter::Flow> Interpreter::run_call_block(const Node& node) {
  const Node& called = tree_[node.a];
  TANDEM_TRY(const Value callee, evaluate(called.a));
  TANDEM_TRY(Arguments arguments, evaluate_arguments(called));
  TANDEM_TRY(Value caller, macro_value(tree_[node.b]));
  arguments.named.emplace_back("caller", std::move(caller));
  TANDEM_TRY(const Value value, call(callee, std::move(arguments)));
  TANDEM_TRY(const std::string printed, str(value));
  output_->put(printed);
  return Flow::on;
}

Status Interpreter::bind_parameters(const Node& node, const std::string& name, Arguments& arguments) {
  const auto take_named = [&](const std::string& key) -> std::optional<Value> {
    const auto found = std::find_if(arguments.named.begin(), arguments.named.end(),
                                    [&](const auto& argument) { return argument.first == key; });
    if (found == arguments.named.end()) return std::nullopt;
    std::optional<Value> value = std::move(found->second);
    arguments.named.erase(found);
    return value;
  };
  const size_t count = node.words.size(), without_default = count - node.others.size();
  auto& given = arguments.positional;
  for (size_t i = 0; i < count; ++i) {
    const std::string& parameter = node.words[i];
    if (i < given.size()) {
      set_here(parameter, given[i]);
    } else if (std::optional<Value> value = take_named(parameter)) {
      set_here(parameter, *std::move(value));
    } else if (i >= without_default) {
      TANDEM_TRY(Value fallback, evaluate(node.others[i - without_default]));
      set_here(parameter, std::move(fallback));
    } else {
      set_here(parameter, undefined(fmt::format("the parameter \"{}\" was not given", parameter)));
    }
  }
  if ((node.integer & kCaller) &&
      std::find(node.words.begin(), node.words.end(), "caller") == node.words.end()) {
    std::optional<Value> caller = take_named("caller");
    set_here("caller", caller ? *std::move(caller) : undefined("no caller defined"));
  }
  if (node.integer & kKwargs) {
    std::vector<std::pair<Value, Value>> rest;
    for (auto& [key, value] : arguments.named) {
      TANDEM_TRY(Value key_text, text(key));
      rest.emplace_back(std::move(key_text), std::move(value));
    }
    TANDEM_TRY(Value mapping, dict(std::move(rest)));
    set_here("kwargs", std::move(mapping));
  } else if (!arguments.named.empty()) {
    return invalid("chat_c3", "macro \"{}\" has no parameter \"{}\"", name, arguments.named[0].first);
  }
  if (node.integer & kVarargs) {
    std::vector<Value> rest(given.begin() + static_cast<ptrdiff_t>(std::min(count, given.size())),
                            given.end());
    TANDEM_TRY(Value more, sequence(std::move(rest), SequenceKind::tuple));
    set_here("varargs", std::move(more));
  } else if (given.size() > count) {
    return invalid("chat_c3", "macro \"{}\" takes {} arguments, got {}", name, count, given.size());
  }
  return {};
}

Result<Value> Interpreter::call_macro(const Macro& macro, Arguments arguments) {
  const Node& node = tree_[macro.node];
  const Inside inside(*this);
  const Restored scope(scope_, std::make_shared<Scope>(Scope{macro.scope, {}}));
  TANDEM_CHECK(bind_parameters(node, macro.name, arguments));
  Writer writer(*this);
  const Restored output(output_, &writer);
  TANDEM_TRY(const Flow flow, run(node.body));
  static_cast<void>(flow);  // the parser lets no break out of here
  TANDEM_TRY(std::string written, writer.finish());
  return text(std::move(written));
}

}  // namespace tandem::chat
