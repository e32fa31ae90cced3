#pragma once
// What must hold of a SavedModelSpec before it is assembled.

#include "formats/saved_model/saved_model.h"

namespace tandem {

/// The root's attribute for an asset: "config.json" is model.config_json.
std::string asset_attribute(std::string_view file_name);

/// Errors: saved_model_c1 to c4, c6, c7; each names the function, variable or
/// asset.
Status check(const SavedModelSpec& spec);

}  // namespace tandem
