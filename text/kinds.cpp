#include "text/kinds.h"

namespace tandem::text {

Result<Pattern> pattern_of(Fields& fields) {
  TANDEM_TRY(const Json* json, fields.required("pattern"));
  const bool known = json->is_object() && json->size() == 1 && json->begin()->is_string();
  const std::string kind = known ? json->begin().key() : "";
  if (kind == "String") return Pattern::literal(json->begin()->get<std::string>());
  if (kind == "Regex") return Pattern::regex(json->begin()->get<std::string>());
  return fields.wrong(R"("pattern" must be {"String": ...} or {"Regex": ...})");
}

}  // namespace tandem::text
