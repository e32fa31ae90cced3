#include "base/json.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace tandem {
namespace {

// The parser quotes what it read last, which may be long or not text at all.
std::string readable(std::string_view words) {
  constexpr size_t kLongest = 160;
  std::string text(words.substr(0, kLongest));
  for (char& c : text)
    if (c < 0x20 || c > 0x7e) c = '?';
  if (words.size() > kLongest) text += "...";
  return text;
}

// "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ..." without what the
// offset says better.
std::string_view reason(std::string_view what) {
  for (std::string_view mark : {"] ", "column ", ": "}) {
    const size_t at = what.find(mark);
    if (at != std::string_view::npos) what.remove_prefix(at + mark.size());
  }
  return what;
}

// Builds the document from the parser's events; its stack is a vector, so depth costs no call stack.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(const JsonLimits& limits, Json& root) : limits_(limits), root_(root) {}
  const Error& error() const { return error_; }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t& spelling) override {
    if (limits_.large_integers || spelling.find_first_of(".eE") != string_t::npos) return put(value);
    return fail(corrupt("json_c1", "integer {} does not fit in 64 bits", readable(spelling)));
  }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t&) override { return fail(bug({}, "binary value in JSON text")); }

  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool key(string_t& value) override {
    key_ = std::move(value);
    return true;
  }
  bool end_array() override {
    open_.pop_back();
    return true;
  }
  bool end_object() override {
    const auto& entries = open_.back()->get_ref<const Json::object_t&>();
    open_.pop_back();
    std::vector<std::string_view> keys;
    keys.reserve(entries.size());
    for (const auto& entry : entries) keys.push_back(entry.first);
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice == keys.end()) return true;
    return fail(corrupt("json_c3", "key \"{}\" stands twice in one object", readable(*twice)));
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& problem) override {
    const bool after_the_end = done_ && open_.empty();
    error_ = corrupt(after_the_end ? "json_c5" : "json_c1", "{}", readable(reason(problem.what())));
    error_.offset = position > 0 ? position - 1 : 0;
    return false;
  }

 private:
  bool fail(Error error) {
    error_ = std::move(error);
    return false;
  }

  Json* place(Json value) {
    done_ = true;
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (open_.back()->is_array()) {
      auto& items = open_.back()->get_ref<Json::array_t&>();
      items.push_back(std::move(value));
      return &items.back();
    }
    // Past ordered_map's own insertion, which searches all keys each time.
    std::vector<Json::object_t::value_type, Json::object_t::allocator_type>& entries =
        open_.back()->get_ref<Json::object_t&>();
    entries.emplace_back(std::move(key_), std::move(value));
    return &entries.back().second;
  }

  bool put(Json value) {
    place(std::move(value));
    return true;
  }

  bool open(Json container) {
    if (open_.size() >= static_cast<size_t>(limits_.max_depth))
      return fail(corrupt("json_c2", "nested deeper than {}", limits_.max_depth));
    open_.push_back(place(std::move(container)));
    return true;
  }

  const JsonLimits& limits_;
  Json& root_;
  std::vector<Json*>
      open_;  // containers not yet closed; only the innermost grows, so the others stay where they are
  std::string key_;
  bool done_ = false;
  Error error_;
};

}  // namespace

Result<Json> parse_json(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes)
    return corrupt("json_c4", "{} bytes of JSON, the limit is {}", text.size(), limits.max_bytes);
  if (text.starts_with("\xef\xbb\xbf")) return corrupt("json_c5", "a byte order mark before the JSON text");
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    Error error = corrupt("json_c1", "a NUL byte in JSON text");
    error.offset = nul;
    return error;
  }
  Json root;
  Builder builder(limits, root);
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) return builder.error();
  return root;
}

}  // namespace tandem
