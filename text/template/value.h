#pragma once
// What a template computes with: the values of JSON, and those that Jinja adds, as Python treats them.
// Values do not change once made; only namespaces do. A container knows how deep it is nested, so that no
// chain of them can outgrow the call stack, and every string and container counts the bytes it holds against
// a limit.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"
#include "text/template/syntax_tree.h"

namespace tandem::chat {

class Value;
struct Scope;

constexpr int kMaxValueDepth = 100;

/// Bytes held by the values of one rendering.
struct Memory {
  size_t held = 0;
  size_t limit = 0;
};

/// A share of that memory, given back at the end.
class Share {
 public:
  Share() = default;
  Share(Memory& memory, size_t bytes) : memory_(&memory), bytes_(bytes) { memory.held += bytes; }
  Share(Share&& other) noexcept : memory_(other.memory_), bytes_(std::exchange(other.bytes_, 0)) {}
  Share& operator=(Share&&) = delete;
  ~Share() { grow_by(-static_cast<int64_t>(bytes_)); }
  void grow_by(int64_t bytes) {
    bytes_ += static_cast<size_t>(bytes);
    if (memory_) memory_->held += static_cast<size_t>(bytes);
  }

 private:
  Memory* memory_ = nullptr;
  size_t bytes_ = 0;
};

/// Steps that are left. Comparing and looking up take from them too; at zero they stop, and the next step of
/// the interpreter is the error.
struct Work {
  uint64_t left = 0;
  bool take(uint64_t steps = 1) {
    left = left > steps ? left - steps : 0;
    return left > 0;
  }
};

struct None {};
/// A name, attribute or item that was not there. It prints as nothing; other uses are an error with these
/// words.
struct Undefined {
  std::shared_ptr<const std::string> why;
};
struct Text {
  std::string text;
  bool is_markup = false;  ///< of the filters safe and escape: what is joined to it is escaped
  Share share;
};
enum class SequenceKind : uint8_t { list, tuple, range, keys, values, items };
struct Sequence {
  SequenceKind kind = SequenceKind::list;
  std::vector<Value> items;
  int64_t start = 0, stop = 0, step = 1;  ///< of a range
  int depth = 1;
  Share share;
};
struct Dict {
  std::vector<std::pair<Value, Value>> entries;  ///< in the order in which they came
  int depth = 1;
  Share share;
};
/// What a filter such as `map` or `select` gives: it can be walked once.
struct Iterator {
  std::string kind = "generator";
  std::vector<Value> items;
  size_t at = 0;
  int depth = 1;
  Share share;
};
struct Namespace {
  std::vector<std::pair<std::string, Value>> entries;
  Share share;
};
struct Macro {
  NodeId node = kNoNode;
  std::shared_ptr<Scope> scope;  ///< where it was defined
  std::string name;
};
/// The variable `loop`.
struct Loop {
  std::shared_ptr<const Sequence> items;
  size_t at = 0;
  int level = 0;  ///< loops around
  std::optional<std::vector<Value>> changed;
};
struct Row;
/// A method and what it belongs to.
struct Method {
  const Row* row = nullptr;
  std::shared_ptr<const Value> self;
};

enum class Kind : uint8_t {
  undefined,
  none,
  boolean,
  integer,
  real,
  text,
  sequence,
  dict,
  iterator,
  name_space,
  macro,
  loop,
  function,
  method,
};

/// The types that a value may be, in the order of Kind.
template <class... States>
struct StateList {
  using Variant = std::variant<States...>;
  template <class T>
  static constexpr bool kHolds = (std::is_same_v<T, States> || ...);
};
using States = StateList<Undefined, None, bool, int64_t, double, std::shared_ptr<const Text>,
                         std::shared_ptr<const Sequence>, std::shared_ptr<const Dict>,
                         std::shared_ptr<Iterator>, std::shared_ptr<Namespace>, std::shared_ptr<const Macro>,
                         std::shared_ptr<Loop>, const Row*, Method>;
template <class T>
constexpr bool kIsState = States::kHolds<T>;

class Value {
 public:
  Value() = default;  ///< undefined
  template <class T>
  requires kIsState<T> Value(T state) : state_(std::in_place_type<T>, std::move(state)) {}

  Kind kind() const { return static_cast<Kind>(state_.index()); }
  bool is(Kind kind) const { return this->kind() == kind; }
  bool is_number() const { return is(Kind::boolean) || is(Kind::integer) || is(Kind::real); }
  bool is_whole() const { return is(Kind::boolean) || is(Kind::integer); }
  bool is_list_or_tuple() const;

  template <class T>
  const T& as() const {
    return std::get<T>(state_);
  }
  /// Of a text.
  const std::string& text() const { return as<std::shared_ptr<const Text>>()->text; }
  bool is_markup() const { return is(Kind::text) && as<std::shared_ptr<const Text>>()->is_markup; }
  const Sequence& sequence() const { return *as<std::shared_ptr<const Sequence>>(); }
  const Dict& dict() const { return *as<std::shared_ptr<const Dict>>(); }
  /// Of a boolean or an integer.
  int64_t whole() const { return is(Kind::boolean) ? as<bool>() : as<int64_t>(); }
  /// Of any number.
  double number() const { return is(Kind::real) ? as<double>() : static_cast<double>(whole()); }

  /// Containers within containers.
  int depth() const;

 private:
  States::Variant state_;
};

Value undefined(std::string why);

bool is_true(const Value& value);
/// Python's type name: "str", "dict", "Undefined".
std::string_view type_name(const Value& value);
/// Python's ==.
bool equal(const Value& left, const Value& right, Work& work);
/// Python's <. Errors: chat_c3 for types without order.
Result<bool> less(const Value& left, const Value& right, Work& work);
bool is_hashable(const Value& value, Work& work);
/// The value at a key, or null.
const Value* find(const Dict& dict, const Value& key, Work& work);
/// chat_c3: what an undefined value says when it is used.
Error undefined_error(const Value& value);

}  // namespace tandem::chat
