#include "arch/config_reader.h"

#include <cmath>

namespace tandem {

ConfigReader::ConfigReader(const Json& object, std::string label)
    : object_(object), label_(std::move(label)) {}

const Json* ConfigReader::find(std::string_view key) {
  read_.insert(std::string(key));
  const auto it = object_.find(std::string(key));
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

void ConfigReader::problem(std::string_view key, const std::string& text) {
  problems_.push_back(label_ + std::string(key) + " " + text);
}

bool ConfigReader::has(std::string_view key) { return find(key) != nullptr; }

bool ConfigReader::contains(std::string_view key) const { return object_.contains(std::string(key)); }

uint64_t ConfigReader::size(std::string_view key, uint64_t min, uint64_t max) {
  const Json* value = find(key);
  if (!value) {
    problem(key, fmt::format("is missing, expected a whole number from {} to {}", min, max));
    return min;
  }
  const bool whole =
      value->is_number_integer() &&
      !(value->is_number_integer() && !value->is_number_unsigned() && value->get<int64_t>() < 0);
  if (!whole || value->get<uint64_t>() < min || value->get<uint64_t>() > max) {
    problem(key, fmt::format("is {}, expected a whole number from {} to {}", value->dump(), min, max));
    return min;
  }
  return value->get<uint64_t>();
}

uint64_t ConfigReader::size_or(std::string_view key, uint64_t fallback, uint64_t min, uint64_t max) {
  return has(key) ? size(key, min, max) : fallback;
}

double ConfigReader::number(std::string_view key) {
  const Json* value = find(key);
  if (!value) {
    problem(key, "is missing, expected a number");
    return 1;
  }
  if (!value->is_number() || !std::isfinite(value->get<double>())) {
    problem(key, fmt::format("is {}, expected a finite number", value->dump()));
    return 1;
  }
  return value->get<double>();
}

double ConfigReader::number_or(std::string_view key, double fallback) {
  return has(key) ? number(key) : fallback;
}

bool ConfigReader::boolean_or(std::string_view key, bool fallback) {
  const Json* value = find(key);
  if (!value) return fallback;
  if (!value->is_boolean()) {
    problem(key, fmt::format("is {}, expected true or false", value->dump()));
    return fallback;
  }
  return value->get<bool>();
}

std::string ConfigReader::text_or(std::string_view key, const std::string& fallback) {
  const Json* value = find(key);
  if (!value) return fallback;
  if (!value->is_string()) {
    problem(key, fmt::format("is {}, expected a text", value->dump()));
    return fallback;
  }
  return value->get<std::string>();
}

std::vector<int64_t> ConfigReader::ids(std::string_view key) {
  const Json* value = find(key);
  if (!value) return {};
  std::vector<int64_t> found;
  for (const Json& id : value->is_array() ? *value : Json::array({*value})) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > kMaxVocab) {
      problem(key, fmt::format("is {}, expected a token id or a list of them", value->dump()));
      return {};
    }
    found.push_back(static_cast<int64_t>(id.get<uint64_t>()));
  }
  return found;
}

const Json* ConfigReader::object_or_null(std::string_view key) {
  const Json* value = find(key);
  if (value && !value->is_object()) {
    problem(key, fmt::format("is {}, expected an object", value->dump()));
    return nullptr;
  }
  return value;
}

std::vector<std::string> ConfigReader::unread(const std::set<std::string>& accepted) const {
  std::vector<std::string> names;
  for (const auto& [key, value] : object_.items()) {
    const std::string full = label_ + key;
    if (read_.count(key) == 0 && accepted.count(full) == 0 && !(label_.empty() && is_harmless(key)))
      names.push_back(full);
  }
  return names;
}

ConfigReader& ConfigReader::nested(const Json& object, std::string label) {
  return nested_.emplace_back(object, std::move(label));
}

Status ConfigReader::finish(const std::set<std::string>& accepted) const {
  std::vector<std::string> lines;
  bool any_unread = false;
  const auto add = [&](const ConfigReader& reader) {
    lines.insert(lines.end(), reader.problems_.begin(), reader.problems_.end());
    for (const std::string& key : reader.unread(accepted)) {
      lines.push_back(key + " is a key that nothing here reads");
      any_unread = true;
    }
  };
  add(*this);
  for (const ConfigReader& reader : nested_) add(reader);
  if (lines.empty()) return {};
  Error error = invalid("C1", "{}", fmt::join(lines, "; "));
  if (any_unread)
    error.hint = "--accept-key NAME goes on without such a key, if you know that it changes nothing";
  return std::move(error).at("config.json");
}

}  // namespace tandem
