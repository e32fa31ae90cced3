#pragma once
// Do two sides hold and compute the same? The levels, run; the report.

#include "verify/basis.h"
#include "verify/divergence.h"
#include "verify/generation_level.h"
#include "verify/model_level.h"
#include "verify/module_level.h"
#include "verify/side.h"
#include "verify/weights_level.h"

namespace tandem {

struct VerifyOptions {
  bool weights = true;
  bool layer = true;
  bool module = true;
  bool model = true;
  bool generation = false;
  std::string tokens_file;        ///< prompts, a line of ids each, in place of the default probes and prompts
  uint64_t random_prompts = 100;  ///< of the generation level; those of text come on top
  uint64_t max_new_tokens = 20;   ///< of the generation level, for each prompt
  double atol = 0;                ///< in place of the table's bar
  bool float64 = true;            ///< run the contract in float64, from which tolerances are derived
  EngineOptions engine;
  std::set<std::string> accepted_keys;
  SafetensorsLimits limits;                                     ///< of the headers that are read
  std::function<void(uint64_t done, uint64_t total)> progress;  ///< bytes of weights compared
};

/// The levels by name. A level has a row here, a member in VerifyReport, and a row in verify.cpp.
struct LevelRow {
  std::string_view name;
  bool VerifyOptions::*wanted;
};
inline constexpr LevelRow kLevels[] = {
    {"weights", &VerifyOptions::weights},       {"layer", &VerifyOptions::layer},
    {"module", &VerifyOptions::module},         {"model", &VerifyOptions::model},
    {"generation", &VerifyOptions::generation},
};

struct VerifyReport {
  std::optional<WeightsLevel> weights;
  std::optional<LayerLevel> layer;
  std::optional<ModuleLevel> module;
  std::optional<ModelLevel> model;
  std::optional<GenerationLevel> generation;
  EngineInfo left, right;  ///< engines and versions; for the weights level alone, format and path
  std::string reference;   ///< "left" or "right"
  bool float64 = false;    ///< the contract was run in float64
  std::optional<Divergence> divergence;  ///< the first one, where a level failed and the contract can be run
  std::vector<std::string> notes;        ///< what could not be looked at, and why
  VerifyBasis basis;                     ///< for the certificate
  /// Some level was run, and each that was has passed.
  bool equal() const;
  /// The one sentence: "equal", "different", "contract and reference disagree".
  Verdict verdict() const;
};
Json to_json(const VerifyReport& report);

/// Compares two sides. The hf side is the reference, else a dump that hf made, and a foreign one (keras_hub)
/// none if it can be helped; else it is the left one. A dump gives the probes, and has no weights: levels
/// that it has nothing for are left out, with a note; so is what a side says it cannot show or run. With a
/// dump, float64 is that of the other side. Errors: those of opening, rules and engines; verify_c9
/// (unsupported) nothing is left to compare. A difference is no error: see equal().
Result<VerifyReport> verify(const FileSystem& files, const SideSpec& left, const SideSpec& right,
                            const VerifyOptions& options);

}  // namespace tandem
