#pragma once
// A dump: what a side computed, written down where it can run, for a comparison elsewhere.
//
//   file     = one safetensors file
//   tensors  = probe/N/input_ids, probe/N/attention_mask, probe/N/position_ids   i32 [batch, tokens]
//              probe/N/logits                                                    f32 [batch, tokens, vocab]
//              probe/N/experts        i32 [batch, moe_layers, tokens, top_k]     mixtures, where known
//              probe/N/router_margin  f32 [batch, moe_layers, tokens]            mixtures, where known
//              probe/N/TAP            a tap by its Hugging Face module path, [batch, ..., tokens, ...]
//              for N = 0, 1, 2, ... without a hole
//   metadata = tandem_dump "1", engine ("hf", "tf", "keras", ...), dtype of the arithmetic ("float32"),
//              levels (some of "layer,module,model": what the tensors serve), prompts (a JSON list, one name
//              a probe); optional: config (the text of config.json); all else (versions, seed, hashes) is for
//              people
//
// docs/recording.md says how to make one without tandem. The bytes come from elsewhere: all is checked.

#include <set>

#include "base/json.h"
#include "engines/engine.h"
#include "formats/safetensors/safetensors.h"

namespace tandem {

inline constexpr std::string_view kDumpVersion = "1";
/// The inputs of a probe; what a probe holds beside them and its taps.
inline constexpr std::string_view kDumpInputs[] = {"input_ids", "attention_mask", "position_ids"};
inline constexpr std::string_view kDumpResults[] = {"logits", "experts", "router_margin"};
inline constexpr std::string_view kDumpLevels[] = {"layer", "module", "model"};

/// "probe/3/logits"
std::string dump_tensor(size_t probe, std::string_view name);

/// One call: its inputs in memory, its results by name in the file.
struct DumpProbe {
  std::string name;  ///< from prompts
  uint64_t batch = 0, tokens = 0;
  HostTensors inputs;
  std::map<std::string, TensorInfo> results;  ///< of kDumpResults, those there are: the tensor in the file
  std::map<std::string, TensorInfo> taps;
};

class DumpFile {
 public:
  /// Errors: those of the safetensors file; dump_c1 no dump, or one of another version; dump_c2 a word of the
  /// metadata lacks or is wrong; dump_c3 there are no probes, a hole in their numbers, or another count than
  /// prompts; dump_c4 a probe lacks an input, or what `levels` promises; dump_c5 a dtype; dump_c6 a shape;
  /// dump_c7 a value of an input; dump_c8 a name that is none of ours.
  static Result<std::unique_ptr<DumpFile>> open(const FileSystem& files, const std::string& path,
                                                const SafetensorsLimits& limits = {});

  const std::string& path() const { return path_; }
  /// Engine and versions, as people read them: made_by, dtype, path, ...
  const EngineInfo& info() const { return info_; }
  const std::string& made_by() const { return made_by_; }
  DType dtype() const { return dtype_; }
  const std::set<std::string>& levels() const { return levels_; }
  const Json& config() const { return config_; }  ///< null if there is none
  const std::vector<DumpProbe>& probes() const { return probes_; }
  uint64_t vocab_size() const { return vocab_size_; }  ///< of the logits; 0 without
  bool has_routing() const;                            ///< every probe has experts and router_margin
  /// The probe with exactly these inputs (all three must be there), or null.
  const DumpProbe* find(const HostTensors& inputs) const;
  Result<HostTensor> read(const TensorInfo& tensor) const;

 private:
  Status read_metadata();
  Status read_names();
  Status read_probe(DumpProbe& probe);
  Status check_results(const DumpProbe& probe);

  std::string path_;
  std::unique_ptr<SafetensorsFile> file_;
  EngineInfo info_;
  std::string made_by_;
  DType dtype_ = DType::f32;
  std::set<std::string> levels_;
  std::vector<std::string> prompts_;
  Json config_;
  std::vector<DumpProbe> probes_;
  uint64_t vocab_size_ = 0;
};

}  // namespace tandem
