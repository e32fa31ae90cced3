#pragma once
// A side written down: what it computes on the probes, as one file that another machine compares with
// (engines/dump_file.h has the format).

#include "verify/probes.h"
#include "verify/side.h"

namespace tandem {

struct RecordOptions {
  bool layer = true;        ///< every tap, of the probes that the layer level runs on
  bool module = true;       ///< hidden states down the stack
  bool model = true;        ///< logits, and for mixtures what the hf engine tells of the routing
  std::string tokens_file;  ///< prompts, a line of ids each, in place of the default probes
  bool force = false;       ///< replace the output
  EngineOptions engine;
  std::set<std::string> accepted_keys;
  SafetensorsLimits limits;
  std::function<void(uint64_t done, uint64_t total)> progress;  ///< probes
};

struct RecordReport {
  std::string out;
  EngineInfo engine;
  std::vector<std::string> probes;
  std::vector<std::string> levels;
  uint64_t taps = 0;  ///< by name
  uint64_t tensors = 0, bytes = 0;
  std::vector<std::string> notes;  ///< probes that could not be made, and why
};
Json to_json(const RecordReport& report);

/// Runs a side on the probes that `verify` would use and writes the dump `out`, which appears whole or not at
/// all. One probe's results are in memory at a time; beside `out` lies, while it is made, a second copy on
/// disk. Errors: usage for a dump as a side, or no level; exists, unless force; those of opening, engines and
/// files.
Result<RecordReport> record_side(const FileSystem& files, const SideSpec& spec, const std::string& out,
                                 const RecordOptions& options);

}  // namespace tandem
