#pragma once
// Do two sides hold and compute the same? The levels, run; the report.

#include "verify/model_level.h"
#include "verify/side.h"
#include "verify/weights_level.h"

namespace tandem {

struct VerifyOptions {
  bool weights = true;
  bool model = true;
  std::string tokens_file;  ///< prompts, a line of ids each, in place of the default probes
  double atol = 0;          ///< in place of the table's bar
  EngineOptions engine;
  std::set<std::string> accepted_keys;
  SafetensorsLimits limits;                                     ///< of the headers that are read
  std::function<void(uint64_t done, uint64_t total)> progress;  ///< bytes of weights compared
};

struct VerifyReport {
  std::optional<WeightsLevel> weights;
  std::optional<ModelLevel> model;
  EngineInfo left, right;  ///< engines and versions; for the weights level alone, format and path
  std::string reference;   ///< "left" or "right"
  bool equal() const {
    return (weights || model) && (!weights || weights->passed()) && (!model || model->passed());
  }
};
Json to_json(const VerifyReport& report);

/// Compares two sides. The hf side is the reference; where there are none or two, the left one.
/// Errors: those of opening, rules and engines. A difference is no error: see equal().
Result<VerifyReport> verify(const FileSystem& files, const SideSpec& left, const SideSpec& right,
                            const VerifyOptions& options);

}  // namespace tandem
