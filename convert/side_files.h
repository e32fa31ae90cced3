#pragma once
// config.json on its way: unchanged wherever possible, edited key by key where it must be.

#include <map>
#include <string>

#include "base/dtype.h"
#include "base/json.h"

namespace tandem {

/// The text of config.json with one key changed; the other keys keep their order and values.
Result<std::string> with_key(std::string_view config_text, const std::string& key, const Json& value);
Result<std::string> without_key(std::string_view config_text, const std::string& key);

/// The key that holds the dtype in this config: "dtype" or "torch_dtype" (when both are absent,
/// "torch_dtype").
std::string dtype_key(const Json& config);

}  // namespace tandem
