#pragma once
// A faulty copy of a model, so that users can measure their own checks.

#include <functional>

#include "convert/open_model.h"
#include "faults/plant.h"

namespace tandem {

struct PlantOptions {
  std::string at;                       ///< place or module; empty: everywhere it applies
  std::set<std::string> accepted_keys;  ///< config keys that nobody reads
  SafetensorsLimits limits;
  /// Told the bytes done and to do; its error stops the work.
  std::function<Status(uint64_t done, uint64_t total)> progress;
};

struct PlantReport {
  std::string fault;  ///< name of the row
  std::string cause;
  std::string format;                ///< of the copy, as of the source
  std::vector<std::string> words;    ///< what is wrong, a line each
  std::vector<std::string> weights;  ///< TensorFlow or Hugging Face names of the tensors that differ
  std::vector<std::string> keys;     ///< of config.json that differ
};
Json to_json(const PlantReport& report);

/// Copies the model at `source` into the new folder `destination` with one fault in it. A SavedModel of ours
/// becomes one: its contract is edited and lowered again, its weights pass through; its assets stay the
/// source's, tandem_contract.txt too, since a faulty converter does not write down its fault. A Hugging Face
/// folder becomes one: weights are edited through the rules, or config.json where a key expresses the fault
/// (then it is planted where that key reaches).
/// Errors: exists; plant_c1 (unsupported) the source is neither, or has no contract or rules; plant_c2
/// (unsupported) the fault lies in the graph, and the source is a Hugging Face folder; those of plant,
/// readers, rules and lowering.
Result<PlantReport> plant_model(const FileSystem& files, const std::string& source, std::string_view fault,
                                const std::string& destination, const PlantOptions& options);

/// A fault, and why it cannot be planted in a model; empty if it can.
struct Applicable {
  const FaultRow* row;
  std::string why_not;
};
/// All faults against a model, in the table's order; nothing is written.
Result<std::vector<Applicable>> applicable_faults(const FileSystem& files, const std::string& source,
                                                  const PlantOptions& options);

}  // namespace tandem
