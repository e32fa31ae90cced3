#pragma once
// One process a framework. An engine is a worker that owns TensorFlow (C API), libtorch, or Python
// transformers; this is the client's side. A worker that dies is an error of kind unavailable with its last
// words, never our crash.
//
// Protocol: a Unix socket pair (the worker's is file descriptor 3). Every message, both ways, is a u64 LE
// length and one safetensors file whose __metadata__ holds the words:
//   -> op=load path=... [threads=N] [stream=1] [compiled=1]      <- ok=1 engine=tensorflow version=2.21.0 ...
//   -> op=encode (text: u8 [bytes])                 <- ok=1 (ids: i32 [tokens])       hf alone
//   -> op=run entry=... outputs=a,b [tokens=last] (tensors: the inputs)   <- ok=1 (tensors: the outputs asked
//   for; all when outputs is empty; with tokens=last the output "logits" is cut to [batch, 1, vocab])
//   -> op=values entry=... scope=entry|block outputs=a,b (tensors: what is given)   <- ok=1 (tensors)
//   -> op=edit contract=TEXT (tensors: weights by contract name)   <- ok=1
//   -> op=time ...                                  <- see engines/timed_run.h
//   -> op=quit
//   <- ok=0 kind=unavailable text=...               any failure

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/host_tensor.h"
#include "base/tensor_source.h"

namespace tandem {

/// The frameworks there are, and the file in which one was recorded (engines/dump_engine.h). The one list of
/// them is in engine.cpp (name, worker program, what to install if it is missing).
enum class EngineKind { tf, torch, hf, keras_hub, dump };
Result<EngineKind> engine_named(std::string_view name);
std::string_view name(EngineKind kind);

struct EngineOptions {
  int threads = 0;  ///< 0: the framework's default
  std::string dtype =
      "float32";  ///< arithmetic of hf (float32, float64, bfloat16, float16); torch takes float32 for what
                  ///< the contract says, or float64; tf follows its graph. Results of float64 are f64
  double timeout_s = 600;
  bool stream = false;  ///< weights are read when they are needed and dropped after it, a layer or less at a
                        ///< time (docs/streaming.md); results are the same
  bool beside_others = false;  ///< other engines compute at the same time: waiting threads sleep
  bool shielded = false;       ///< a Ctrl-C at the terminal does not reach the worker, and so ends no call
  bool compiled = false;       ///< last_logits through the signatures that XLA compiles (tf alone;
                               ///< docs/generation.md)
  std::set<std::string> accepted_keys = {};  ///< config keys that nobody reads, accepted by name (torch)
};

/// Whose value names a call means: the entry's own, or those of the one block that a "layer_N" entry calls.
enum class Scope { entry, block };

/// What a side says of itself, for reports: engine, framework version, path; and what it can be asked
/// (verify/visibility.h).
using EngineInfo = std::map<std::string, std::string>;

class Engine {
 public:
  /// Starts the worker and loads a model: a SavedModel for tf; an HF folder or SavedModel for torch; an HF
  /// folder for hf and keras_hub. A dump needs no worker. Errors: unavailable (framework not installed: says
  /// which command installs it; worker died), usage (engine_c12) an engine other than tf asked to compile,
  /// and the worker's own.
  static Result<std::unique_ptr<Engine>> start(EngineKind kind, const std::string& path,
                                               const EngineOptions& options = {});
  virtual ~Engine() = default;
  virtual const EngineInfo& info() const = 0;
  /// Text (UTF-8) to ids by the `tokenizers` library and the tokenizer.json in the model's folder, with the
  /// special tokens that it adds itself and no others: what our own tokenizer is held to. The hf engine alone
  /// does it. Errors: missing there is no tokenizer.json; invalid it is none, or the text is not UTF-8.
  virtual Result<std::vector<int32_t>> encode(std::string_view text);
  /// The logits of each row's last token, f32 [batch, 1, vocab]: entry "logits", of which nothing else
  /// travels. Rows are padded on the left. Asked for the rows of the call before and one token more in each,
  /// an engine that can keep a cache runs that token alone (torch; tf, where the model has the
  /// signatures).
  virtual Result<HostTensors> last_logits(const HostTensors& inputs);
  /// Runs an entry: "logits" with input_ids, attention_mask, position_ids (i32 [batch, tokens]) -> logits f32
  /// [batch, tokens, vocab]; "logits_forced" with forced_experts i32 [batch, moe_layers, tokens, top_k]
  /// besides; "taps" as logits, with every tap by name. For mixtures the hf engine's "logits" also returns,
  /// when asked for by name, "experts" i32 [batch, moe_layers, tokens, top_k] and "router_margin" f32 [batch,
  /// moe_layers, tokens] (the smallest gap between a chosen and a rejected expert, or group, in the scores
  /// that choose).
  virtual Result<HostTensors> run(const std::string& entry, const HostTensors& inputs,
                                  const std::vector<std::string>& outputs = {}) = 0;
  /// Values inside an entry, by the names that they have in the contract. `given` holds the entry's inputs,
  /// as far as they are needed, and values of the scope that stand in place of what would be computed: with
  /// all operands of one node given, that node alone is run. The tf engine answers for the SavedModels that
  /// `convert` wrote (tf_c10 otherwise), the torch engine for any contract. Errors: unsupported for other
  /// engines.
  virtual Result<HostTensors> values(const std::string& entry, Scope scope, const HostTensors& given,
                                     const std::vector<std::string>& outputs);
  /// Runs another contract from now on, in its text form, over the same weights, with those in `weights` (by
  /// contract name, as the TensorFlow side keeps them) in place of the model's. An empty text brings the
  /// model's own back. Errors: unsupported for all engines but torch.
  virtual Status edit(const std::string& contract, const HostTensors& weights);
  /// How many functions XLA has compiled for last_logits so far (engines/tf/compilations.h says how that is
  /// known): 0 without EngineOptions::compiled.
  virtual Result<uint64_t> compilations();
};

}  // namespace tandem
