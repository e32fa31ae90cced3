#pragma once
// A model as several SavedModels of consecutive layers, in one folder: stages.json says which they are, and
// in which order hidden states pass through them. docs/schemas/stages.schema.json describes the file,
// docs/scale.md what the stages take and give.
//
//   {"tandem_stages": 1, "architecture": "llama", "stages": [
//     {"folder": "stage-0-of-2", "layers": [0, 3], "bytes": 912, "takes": "input_ids", "gives":
//     "hidden_states_out", "hidden_states": null},
//     {"folder": "stage-1-of-2", "layers": [3, 6], "bytes": 912, "takes": "hidden_states", "gives": "logits",
//     "hidden_states": "x_3"}]}

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace tandem {

inline constexpr const char* kStagesFile = "stages.json";

struct StageEntry {
  uint64_t first_layer = 0, end_layer = 0;  ///< layers [first_layer, end_layer)
  uint64_t bytes = 0;                       ///< of its tensors
  std::string hidden_states;  ///< the value of the whole contract that enters it; empty for the first
  bool operator==(const StageEntry&) const = default;
};

struct StageManifest {
  std::string architecture;
  std::vector<StageEntry> stages;  ///< in order, one at least
  /// The folder of a stage: "stage-0-of-2".
  std::string folder(size_t stage) const;
  bool operator==(const StageManifest&) const = default;
};

Json to_json(const StageManifest& manifest);
std::string to_text(const StageManifest& manifest);
/// Errors: json_c1..5; stages_c3 (corrupt) no manifest of this tool, or stages that do not follow each other.
Result<StageManifest> stages_from_text(std::string_view text);

}  // namespace tandem
