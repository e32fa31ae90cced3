#pragma once
// The kinds of one section of a tokenizer.json are a table: the name in "type", and the function that reads
// the other keys. A new kind is one row.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/fields.h"
#include "text/pattern.h"

namespace tandem::text {

template <class Made>
struct Kind {
  std::string_view type;
  Result<Made> (*make)(Fields&);
};

/// Reads an object by the row of its "type". Errors: tokenizer_c1 for keys, tokenizer_c2 for a type that has
/// no row.
template <class Made>
Result<Made> make_kind(std::span<const Kind<Made>> kinds, const Json& json, const std::string& place) {
  TANDEM_TRY(Fields plain, Fields::of(json, place));
  TANDEM_TRY(const std::string type, plain.string("type"));
  for (const Kind<Made>& kind : kinds) {
    if (kind.type != type) continue;
    TANDEM_TRY(Fields fields, Fields::of(json, place + ": " + type));
    fields.ignore("type");
    auto made = kind.make(fields);
    if (!made.ok()) return std::move(made).error().at(fields.place());
    TANDEM_CHECK(fields.all_read());
    return made;
  }
  return unsupported("tokenizer_c2", "{}: type \"{}\" is not supported", place, type);
}

template <class Made>
std::vector<std::string_view> types_of(std::span<const Kind<Made>> kinds) {
  std::vector<std::string_view> types;
  for (const Kind<Made>& kind : kinds) types.push_back(kind.type);
  return types;
}

/// Reads each object of the list under `key`, in order.
template <class Made>
Result<std::vector<Made>> make_each(Fields& fields, const char* key,
                                    Result<Made> (*make)(const Json&, const std::string&)) {
  TANDEM_TRY(const Json* list, fields.required(key));
  if (!list->is_array()) return fields.wrong(fmt::format("\"{}\" must be a list", key));
  std::vector<Made> all;
  for (size_t i = 0; i < list->size(); ++i) {
    TANDEM_TRY(Made one, make((*list)[i], fmt::format("{}.{}[{}]", fields.place(), key, i)));
    all.push_back(std::move(one));
  }
  return all;
}

/// A string of at most kMaxTokenBytes: what it is put in grows by so much.
Result<std::string> short_string(Fields& fields, const char* key);
/// The pattern under "pattern": {"String": ...} or {"Regex": ...}.
Result<Pattern> pattern_of(Fields& fields);

}  // namespace tandem::text
