#pragma once
// A model run token by token through its signatures, the caches kept on TensorFlow's side.

#include <functional>

#include "engines/engine.h"
#include "engines/seen_rows.h"
#include "engines/tf/signature.h"
#include "engines/tf/tensor.h"

namespace tandem {

using TfTensors = std::map<std::string, Owned<TF_Tensor>>;

/// Runs a signature on tensors by input name; all outputs by name.
using RunSignature =
    std::function<Result<TfTensors>(const std::string& key, const std::map<std::string, TF_Tensor*>& inputs)>;

/// Rows that grow by one token each. Inputs as in Engine::last_logits, with positions that follow the mask
/// (engines/seen_rows.h); logits f32 [batch, 1, vocab]. After an error only begin() makes sense.
class Steps {
 public:
  virtual ~Steps() = default;
  /// New rows: [batch, tokens].
  virtual Result<HostTensors> begin(const HostTensors& inputs) = 0;
  /// The rows of before and one token more in each: [batch, tokens + 1].
  virtual Result<HostTensors> next(const HostTensors& inputs) = 0;
};

/// last_logits by steps: the rows of before and one token more run that token alone.
Result<HostTensors> last_logits_by(Steps& steps, SeenRows& seen, const HostTensors& inputs);

/// Which steps a model is run by: none, where its weights are not in memory.
enum class StepKind { none, growing, compiled };

/// Through prefill and decode: caches grow, any length, stock kernels. Null where the model has them not.
std::unique_ptr<Steps> growing_steps(const TfApi& api, const Signatures& signatures, RunSignature run);

/// Through prefill_xla and decode_xla: prompts are padded on the left to a length out of a short list, caches
/// have a capacity out of it and are written in place; each length is compiled once. Null where the model has
/// them not.
std::unique_ptr<Steps> compiled_steps(const TfApi& api, const Signatures& signatures, RunSignature run);

/// The least of 64, 96, 128, 192, 256, 384, ... that holds so many tokens.
uint64_t bucket_of(uint64_t tokens);

}  // namespace tandem
