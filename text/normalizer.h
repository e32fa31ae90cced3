#pragma once
// The normalizers of a tokenizer.json: each changes the characters of one piece and keeps their origins.

#include <functional>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/unicode.h"

namespace tandem::text {

/// Changes a piece; `origin` is where it starts in the original, in bytes.
using Normalizer = std::function<Status(Characters&, uint32_t origin)>;

/// The normalizer of a "normalizer" object. Errors: tokenizer_c1 (keys), tokenizer_c2 (a type that is none of
/// normalizer_types()), tokenizer_c4 (patterns), tokenizer_c3 (a character map that is cut or points
/// outside).
Result<Normalizer> make_normalizer(const Json& json, const std::string& place);
std::vector<std::string_view> normalizer_types();

}  // namespace tandem::text
