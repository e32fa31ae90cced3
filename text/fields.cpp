#include "text/fields.h"

#include "text/utf8.h"

namespace tandem::text {

Error Fields::wrong(std::string what) const { return unsupported("tokenizer_c1", "{}: {}", place_, what); }

Result<Fields> Fields::of(const Json& json, std::string place) {
  Fields fields;
  fields.json_ = &json;
  fields.place_ = std::move(place);
  if (!json.is_object()) return fields.wrong("expected an object");
  return fields;
}

const Json* Fields::member(const char* key) {
  read_.insert(key);
  const auto found = json_->find(key);
  return found == json_->end() || found->is_null() ? nullptr : &*found;
}

Result<const Json*> Fields::required(const char* key) {
  const Json* found = member(key);
  if (!found) return wrong(fmt::format("\"{}\" is missing", key));
  return found;
}

Result<bool> Fields::boolean(const char* key, std::optional<bool> fallback) {
  const Json* found = member(key);
  if (!found && fallback) return *fallback;
  if (!found || !found->is_boolean()) return wrong(fmt::format("\"{}\" must be true or false", key));
  return found->get<bool>();
}

Result<std::optional<std::string>> Fields::optional_string(const char* key) {
  const Json* found = member(key);
  if (!found) return std::optional<std::string>{};
  if (!found->is_string()) return wrong(fmt::format("\"{}\" must be a string or null", key));
  return std::optional<std::string>(found->get<std::string>());
}

Result<std::string> Fields::string(const char* key, std::optional<std::string> fallback) {
  TANDEM_TRY(std::optional<std::string> found, optional_string(key));
  if (!found && !fallback) return wrong(fmt::format("\"{}\" must be a string", key));
  return found ? *found : *fallback;
}

Result<uint64_t> Fields::number(const char* key, std::optional<uint64_t> fallback) {
  const Json* found = member(key);
  if (!found && fallback) return *fallback;
  if (!found || !found->is_number_unsigned())
    return wrong(fmt::format("\"{}\" must be a whole number from 0", key));
  return found->get<uint64_t>();
}

Result<char32_t> Fields::character(const char* key) {
  TANDEM_TRY(const std::string text, string(key));
  if (count_characters(text) != 1) return wrong(fmt::format("\"{}\" must be one character", key));
  return code_point_at(text, 0).code;
}

Status Fields::all_read() const {
  std::string left;
  for (const auto& [key, value] : json_->items())
    if (!read_.contains(key)) left += (left.empty() ? "\"" : ", \"") + key + "\"";
  if (left.empty()) return {};
  return wrong(fmt::format("{} is not a key that we know", left));
}

}  // namespace tandem::text
