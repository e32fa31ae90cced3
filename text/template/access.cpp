// Making values, reaching into them, and calling.

#include <algorithm>
#include <charconv>

#include "text/template/interpreter.h"
#include "text/template/unicode.h"

namespace tandem::chat {

Writer::Writer(Interpreter& in) : in_(in), share_(in.memory(), 0) {}

void Writer::put(std::string_view text) {
  const Memory& memory = in_.memory();
  if (is_full_ || text.size() > in_.limits().max_output_bytes - text_.size() || memory.held > memory.limit ||
      text.size() > memory.limit - memory.held) {
    is_full_ = true;
    return;
  }
  share_.grow_by(static_cast<int64_t>(text.size()));
  text_ += text;
  in_.work().take(text.size() / 256);
}

Result<std::string> Writer::finish() {
  if (is_full_)
    return invalid("chat_c2", "more than {} bytes of text, or {} bytes of values",
                   in_.limits().max_output_bytes, in_.limits().max_memory_bytes);
  return std::move(text_);
}

namespace {

Status shallow(int depth) {
  if (depth <= kMaxValueDepth) return {};
  return invalid("chat_c2", "a value nested deeper than {}", kMaxValueDepth);
}

int deepest(const std::vector<Value>& items) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  return depth;
}

constexpr size_t kContainerBytes = 128;

}  // namespace

Result<Value> Interpreter::text(std::string text, bool is_markup) {
  const size_t bytes = kContainerBytes + text.size();
  TANDEM_CHECK(handle_bytes(bytes));
  TANDEM_CHECK(fits(bytes));
  return Value(std::shared_ptr<const Text>(
      std::make_shared<Text>(Text{std::move(text), is_markup, Share(memory_, bytes)})));
}

Result<Value> Interpreter::sequence(std::vector<Value> items, SequenceKind kind) {
  const size_t bytes = kContainerBytes + items.size() * sizeof(Value);
  const int depth = 1 + deepest(items);
  TANDEM_CHECK(shallow(depth));
  TANDEM_CHECK(step(1 + items.size() / 8));
  TANDEM_CHECK(fits(bytes));
  return Value(std::shared_ptr<const Sequence>(
      std::make_shared<Sequence>(Sequence{kind, std::move(items), 0, 0, 1, depth, Share(memory_, bytes)})));
}

Result<Value> Interpreter::range(int64_t start, int64_t stop, int64_t step_size) {
  constexpr uint64_t kLongest = 100'000;  // as in Jinja's sandbox
  if (step_size == 0) return invalid("chat_c3", "range() with a step of 0");
  const bool up = step_size > 0;
  const uint64_t span = (up ? stop > start : start > stop)
                            ? (up ? static_cast<uint64_t>(stop) - static_cast<uint64_t>(start)
                                  : static_cast<uint64_t>(start) - static_cast<uint64_t>(stop))
                            : 0;
  const uint64_t stride =
      up ? static_cast<uint64_t>(step_size) : uint64_t{0} - static_cast<uint64_t>(step_size);
  const uint64_t count = span == 0 ? 0 : (span - 1) / stride + 1;
  if (count > kLongest) return invalid("chat_c2", "a range of {} numbers, the limit is {}", count, kLongest);
  std::vector<Value> items;
  items.reserve(count);
  for (uint64_t i = 0; i < count; ++i)
    items.push_back(
        Value(static_cast<int64_t>(static_cast<uint64_t>(start) + i * static_cast<uint64_t>(step_size))));
  const size_t bytes = kContainerBytes + items.size() * sizeof(Value);
  TANDEM_CHECK(step(1 + count / 8));
  TANDEM_CHECK(fits(bytes));
  return Value(std::shared_ptr<const Sequence>(std::make_shared<Sequence>(
      Sequence{SequenceKind::range, std::move(items), start, stop, step_size, 1, Share(memory_, bytes)})));
}

Result<Value> Interpreter::dict(std::vector<std::pair<Value, Value>> entries) {
  Dict made;
  for (auto& [key, value] : entries) {
    if (!is_hashable(key, work_)) return invalid("chat_c3", "{} cannot be a key", type_name(key));
    const int depth = 1 + std::max(key.depth(), value.depth());
    made.depth = std::max(made.depth, depth);
    const Value* there = find(made, key, work_);
    TANDEM_CHECK(step());
    if (there)
      *const_cast<Value*>(there) = std::move(value);  // of `made`, which is ours
    else
      made.entries.emplace_back(std::move(key), std::move(value));
  }
  TANDEM_CHECK(shallow(made.depth));
  const size_t bytes = kContainerBytes + made.entries.size() * 2 * sizeof(Value);
  TANDEM_CHECK(fits(bytes));
  return Value(std::shared_ptr<const Dict>(
      std::make_shared<Dict>(Dict{std::move(made.entries), made.depth, Share(memory_, bytes)})));
}

Result<Value> Interpreter::iterator(std::vector<Value> items, std::string kind) {
  const size_t bytes = kContainerBytes + items.size() * sizeof(Value);
  const int depth = 1 + deepest(items);
  TANDEM_CHECK(shallow(depth));
  TANDEM_CHECK(step(1 + items.size() / 8));
  TANDEM_CHECK(fits(bytes));
  return Value(std::make_shared<Iterator>(
      Iterator{std::move(kind), std::move(items), 0, depth, Share(memory_, bytes)}));
}

Result<Value> Interpreter::name_space(std::vector<std::pair<std::string, Value>> entries) {
  constexpr size_t kBytes = 256;
  TANDEM_CHECK(hold(kBytes + entries.size() * 2 * sizeof(Value)));
  auto made = std::make_shared<Namespace>();
  made->entries = std::move(entries);
  namespaces_.push_back(made);
  return Value(std::move(made));
}

Result<Value> Interpreter::from_json(const Json& json) {
  switch (json.type()) {
    case Json::value_t::null:
      return Value(None{});
    case Json::value_t::boolean:
      return Value(json.get<bool>());
    case Json::value_t::number_unsigned:
      if (json.get<uint64_t>() > INT64_MAX)
        return unsupported("chat_c5", "the integer {} does not fit in 64 bits with a sign",
                           json.get<uint64_t>());
      return Value(json.get<int64_t>());
    case Json::value_t::number_integer:
      return Value(json.get<int64_t>());
    case Json::value_t::number_float:
      return Value(json.get<double>());
    case Json::value_t::string:
      return text(json.get_ref<const std::string&>());
    case Json::value_t::array: {
      std::vector<Value> items;
      for (const Json& item : json) {
        TANDEM_TRY(Value value, from_json(item));
        items.push_back(std::move(value));
      }
      return sequence(std::move(items));
    }
    case Json::value_t::object: {
      std::vector<std::pair<Value, Value>> entries;
      for (const auto& [name, item] : json.items()) {
        TANDEM_TRY(Value key, text(name));
        TANDEM_TRY(Value value, from_json(item));
        entries.emplace_back(std::move(key), std::move(value));
      }
      return dict(std::move(entries));
    }
    default:
      return bug("", "a JSON value of an unknown type");
  }
}

Result<std::vector<Value>> Interpreter::walk(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
      return std::vector<Value>();
    case Kind::sequence:
      TANDEM_CHECK(step(1 + value.sequence().items.size() / 8));
      return value.sequence().items;
    case Kind::iterator: {
      Iterator& iterator = *value.as<std::shared_ptr<Iterator>>();
      TANDEM_CHECK(step(1 + iterator.items.size() / 8));
      std::vector<Value> rest(iterator.items.begin() + static_cast<ptrdiff_t>(iterator.at),
                              iterator.items.end());
      iterator.at = iterator.items.size();
      return rest;
    }
    case Kind::dict: {
      std::vector<Value> keys;
      TANDEM_CHECK(step(1 + value.dict().entries.size() / 8));
      for (const auto& [key, item] : value.dict().entries) keys.push_back(key);
      return keys;
    }
    case Kind::text: {
      std::vector<Value> all;
      for (std::string_view character : characters(value.text())) {
        TANDEM_TRY(Value one, text(std::string(character)));
        all.push_back(std::move(one));
      }
      return all;
    }
    default:
      return invalid("chat_c3", "{} cannot be walked over", type_name(value));
  }
}

Result<int64_t> Interpreter::length(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
      return int64_t{0};
    case Kind::text:
      TANDEM_CHECK(handle_bytes(value.text().size()));
      return static_cast<int64_t>(chat::length(value.text()));
    case Kind::sequence:
      return static_cast<int64_t>(value.sequence().items.size());
    case Kind::dict:
      return static_cast<int64_t>(value.dict().entries.size());
    case Kind::loop:
      return static_cast<int64_t>(value.as<std::shared_ptr<Loop>>()->items->items.size());
    default:
      return invalid("chat_c3", "{} has no length", type_name(value));
  }
}

namespace {

std::optional<Value> loop_attribute(const Loop& loop, std::string_view name) {
  const auto& items = loop.items->items;
  const auto at = static_cast<int64_t>(loop.at), count = static_cast<int64_t>(items.size());
  if (name == "index") return Value(at + 1);
  if (name == "index0") return Value(at);
  if (name == "first") return Value(at == 0);
  if (name == "last") return Value(at + 1 >= count);
  if (name == "length") return Value(count);
  if (name == "revindex") return Value(count - at);
  if (name == "revindex0") return Value(count - at - 1);
  if (name == "depth") return Value(int64_t{1});
  if (name == "depth0") return Value(int64_t{0});
  if (name == "previtem") return at > 0 ? items[loop.at - 1] : undefined("there is no previous item");
  if (name == "nextitem") return at + 1 < count ? items[loop.at + 1] : undefined("there is no next item");
  return std::nullopt;
}

std::optional<Value> own_attribute(const Value& value, const std::string& name) {
  if (value.is(Kind::loop)) return loop_attribute(*value.as<std::shared_ptr<Loop>>(), name);
  if (value.is(Kind::name_space))
    for (const auto& [key, item] : value.as<std::shared_ptr<Namespace>>()->entries)
      if (key == name) return item;
  return std::nullopt;
}

bool is_private(std::string_view name) {
  return name.size() > 4 && name.starts_with("__") && name.ends_with("__");
}

/// A method of the value, or what stands for one that may not be used.
std::optional<Value> method(const Value& value, const std::string& name) {
  if (const Row* row = find_row(methods_of(value), name))
    return Value(Method{row, std::make_shared<const Value>(value)});
  if (is_private(name) || changes_its_value(value, name))
    return undefined(fmt::format("access to attribute \"{}\" of {} is unsafe", name, type_name(value)));
  return std::nullopt;
}

Value no_such(const Value& value, std::string_view what, std::string_view name) {
  return undefined(fmt::format("{} object has no {} \"{}\"", type_name(value), what, name));
}

}  // namespace

Result<Value> Interpreter::attribute(const Value& value, const std::string& name) {
  if (value.is(Kind::undefined) && !is_private(name)) return undefined_error(value);
  if (std::optional<Value> own = own_attribute(value, name)) return *std::move(own);
  if (std::optional<Value> found = method(value, name)) return *std::move(found);
  if (value.is(Kind::dict)) {
    TANDEM_TRY(const Value key, text(name));
    if (const Value* found = find(value.dict(), key, work_)) return *found;
  }
  return no_such(value, "attribute", name);
}

Result<Value> Interpreter::item(const Value& value, const Value& key) {
  if (value.is(Kind::undefined)) return undefined_error(value);
  if (value.is(Kind::dict) && is_hashable(key, work_))
    if (const Value* found = find(value.dict(), key, work_)) return *found;
  const bool is_view = value.is(Kind::sequence) && value.sequence().kind >= SequenceKind::keys;
  if ((value.is(Kind::sequence) || value.is(Kind::text)) && !is_view && key.is_whole()) {
    TANDEM_TRY(const int64_t count, length(value));
    const int64_t index = key.whole() < 0 ? key.whole() + count : key.whole();
    if (index < 0 || index >= count) return no_such(value, "element", std::to_string(key.whole()));
    if (value.is(Kind::sequence)) return value.sequence().items[static_cast<size_t>(index)];
    const std::string& all = value.text();
    const size_t from = byte_of(all, static_cast<size_t>(index));
    size_t to = from;
    next(all, to);
    return text(all.substr(from, to - from), value.is_markup());
  }
  if (!key.is(Kind::text)) {
    TANDEM_TRY(const std::string printed, repr(key));
    return no_such(value, "element", printed.substr(0, 80));
  }
  if (std::optional<Value> own = own_attribute(value, key.text())) return *std::move(own);
  if (std::optional<Value> found = method(value, key.text())) return *std::move(found);
  return no_such(value, "attribute", key.text());
}

Result<Value> Interpreter::item_at_path(const Value& value, const Value& path) {
  if (!path.is(Kind::text)) return path.is(Kind::none) ? Result<Value>(value) : item(value, path);
  Value found = value;
  std::string_view words = path.text();
  while (true) {
    const std::string_view word = words.substr(0, words.find('.'));
    int64_t index = 0;
    const auto [end, failed] = std::from_chars(word.data(), word.data() + word.size(), index);
    const bool is_index =
        !word.empty() && word[0] != '-' && failed == std::errc() && end == word.data() + word.size();
    Value key(index);
    if (!is_index) {
      TANDEM_TRY(key, text(std::string(word)));
    }
    TANDEM_TRY(found, item(found, key));
    if (word.size() == words.size()) return found;
    words.remove_prefix(word.size() + 1);
  }
}

Result<bool> Interpreter::contains(const Value& container, const Value& value) {
  if (container.is(Kind::text)) {
    if (value.is(Kind::undefined))
      return invalid("chat_c3", "\"in\" a string needs a string, found Undefined");
    if (!value.is(Kind::text))
      return invalid("chat_c3", "\"in\" a string needs a string, found {}", type_name(value));
    TANDEM_CHECK(handle_bytes(container.text().size()));
    return container.text().find(value.text()) != std::string::npos;
  }
  if (container.is(Kind::dict)) {
    if (!is_hashable(value, work_)) return invalid("chat_c3", "{} cannot be a key", type_name(value));
    return find(container.dict(), value, work_) != nullptr;
  }
  TANDEM_TRY(const std::vector<Value> items, walk(container));
  return std::any_of(items.begin(), items.end(),
                     [&](const Value& item) { return equal(item, value, work_); });
}

Result<Value> Interpreter::call(const Value& callee, Arguments arguments) {
  TANDEM_CHECK(step());
  if (callee.is(Kind::undefined)) return undefined_error(callee);
  if (callee.is(Kind::macro))
    return call_macro(*callee.as<std::shared_ptr<const Macro>>(), std::move(arguments));
  const bool is_method = callee.is(Kind::method);
  if (!is_method && !callee.is(Kind::function))
    return invalid("chat_c3", "{} cannot be called", type_name(callee));
  const Row& row = is_method ? *callee.as<Method>().row : *callee.as<const Row*>();
  TANDEM_TRY(auto slots, bind(row, arguments));
  const Value nothing;
  Call call{*this, is_method ? *callee.as<Method>().self : nothing, std::move(slots), std::move(arguments)};
  return row.run(call);
}

Result<Value> Interpreter::filter(const std::string& name, const Value& value, Arguments arguments) {
  const Row* row = find_row(filters(), name);
  if (!row) return unsupported("chat_c5", "the filter \"{}\" is not supported", name);
  TANDEM_CHECK(step());
  TANDEM_TRY(auto slots, bind(*row, arguments));
  Call call{*this, value, std::move(slots), std::move(arguments)};
  return row->run(call);
}

Result<bool> Interpreter::test(const std::string& name, const Value& value, Arguments arguments) {
  const Row* row = find_row(tests(), name);
  if (!row) return unsupported("chat_c5", "the test \"{}\" is not supported", name);
  TANDEM_CHECK(step());
  TANDEM_TRY(auto slots, bind(*row, arguments));
  Call call{*this, value, std::move(slots), std::move(arguments)};
  TANDEM_TRY(const Value answer, row->run(call));
  return is_true(answer);
}

}  // namespace tandem::chat
