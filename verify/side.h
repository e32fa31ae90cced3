#pragma once
// One side of a comparison: a path, the engine that runs it, and its weights as Hugging Face tensors.

#include "convert/named_tensors.h"
#include "convert/open_model.h"
#include "engines/dump_engine.h"
#include "rules/transform.h"

namespace tandem {

/// As it stands on the command line.
struct SideSpec {
  std::optional<EngineKind> engine;
  std::string path;
};
/// "hf:PATH", "torch:PATH", "tf:PATH", "keras_hub:PATH", "dump:FILE" or a plain path. Errors: usage for an
/// unknown engine.
Result<SideSpec> parse_side(std::string_view text);

/// The engine that runs a format unless another is asked for. Errors: unsupported for a checkpoint without a
/// graph.
Result<EngineKind> default_engine(ModelFormat format);
/// The engine asked for, or the default. Errors: verify_c2 it does not run that format.
Result<EngineKind> engine_for(ModelFormat format, std::optional<EngineKind> wanted);

/// The arithmetic that a model's graph uses: a SavedModel's contract says, the others compute in float32.
DType compute_of(const OpenedModel& opened);

/// An opened side. Its parts point at each other: not movable.
struct Side {
  OpenedModel opened;                    ///< of a dump: its path and config alone
  std::shared_ptr<const DumpFile> dump;  ///< null for a model
  std::optional<EngineKind> engine;
  RuleTable rules;
  TensorView named;                             ///< TensorFlow side by the names of the rules
  std::unique_ptr<ToTensorFlow> dequantised;    ///< fp8 checkpoints
  std::unique_ptr<ToHuggingFace> hugging_face;  ///< all but plain Hugging Face checkpoints
  TensorView weights;                           ///< the result: every weight once, in canonical order
};

/// Opens a side, a dump too (which has no weights), and takes its weights to Hugging Face form (fp8 as exact
/// float32, tied copies once, derived buffers left out). `other` gives rules where a bare checkpoint has
/// none. Errors: those of open_model and the rules or of DumpFile::open; verify_c1 no rules.
Result<std::unique_ptr<Side>> open_side(const FileSystem& files, const SideSpec& spec,
                                        const ArchOptions& options, const SafetensorsLimits& limits = {});
Status read_weights(Side& side, const Side& other);

/// The engine that answers for a side: the one asked for or the default; of a dump, the dump's.
Result<EngineKind> engine_of(const Side& side);
Result<std::unique_ptr<Engine>> start_engine(const Side& side, const EngineOptions& options);

}  // namespace tandem
