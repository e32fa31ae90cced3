#include "text/kinds.h"

#include "text/trie.h"

namespace tandem::text {

Result<std::string> short_string(Fields& fields, const char* key) {
  TANDEM_TRY(std::string text, fields.string(key));
  if (text.size() > kMaxTokenBytes)
    return fields.wrong(
        fmt::format("\"{}\" has {} bytes, at most {} are read", key, text.size(), kMaxTokenBytes));
  return text;
}

Result<Pattern> pattern_of(Fields& fields) {
  TANDEM_TRY(const Json* json, fields.required("pattern"));
  const bool known = json->is_object() && json->size() == 1 && json->begin()->is_string();
  const std::string kind = known ? json->begin().key() : "";
  if (kind == "String") return Pattern::literal(json->begin()->get<std::string>());
  if (kind == "Regex") return Pattern::regex(json->begin()->get<std::string>());
  return fields.wrong(R"("pattern" must be {"String": ...} or {"Regex": ...})");
}

}  // namespace tandem::text
