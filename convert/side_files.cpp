#include "convert/side_files.h"

namespace tandem {
namespace {

std::string to_text(const Json& json) { return json.dump(2) + "\n"; }

}  // namespace

Result<std::string> with_key(std::string_view config_text, const std::string& key, const Json& value) {
  TANDEM_TRY(Json config, parse_json(config_text));
  config[key] = value;
  return to_text(config);
}

Result<std::string> without_key(std::string_view config_text, const std::string& key) {
  TANDEM_TRY(Json config, parse_json(config_text));
  config.erase(key);
  return to_text(config);
}

std::string dtype_key(const Json& config) { return config.contains("dtype") ? "dtype" : "torch_dtype"; }

}  // namespace tandem
