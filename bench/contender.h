#pragma once
// Who takes part in `tandem bench infer`: each a process of its own that times a model inside itself.
//
// Messages are those of engines/engine.h. After op=load (path, threads, mode, trial):
//   -> op=time what=first (input_ids: i32 [batch, tokens]): as prefill, without a call before it
//   -> op=time what=prefill (input_ids: i32 [batch, tokens])
//   -> op=time what=decode steps=N (input_ids: i32 [batch, tokens])
//   <- ok=1 seconds=S peak_bytes=N (logits: f32 [batch, vocab], of the prompt's last token; tokens: i32
//   [batch, 0] or [batch, N + 1], greedy, the first of them from the prompt)
// seconds are of the prompt, or of the N steps after it; rows are not padded. trial=1: time is spent on
// choosing the fastest way.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/host_tensor.h"
#include "base/result.h"

namespace tandem {

/// What a contender reads.
enum class ModelInput { saved_model, hf_folder, bf16_saved_model, onnx, gguf };

/// One row a contender: the one list of them.
struct ContenderRow {
  std::string_view name;
  std::string_view help;
  ModelInput input;
  std::string_view mode;    ///< word of op=load; of a gguf, its precision
  std::string_view script;  ///< of python/; "": the engine tf
  std::string_view python;  ///< target of make that installs what the script needs
  double tolerance;         ///< of logits, from the first contender's (bench/infer.h)
  double weight_bytes;      ///< of one weight
};
std::span<const ContenderRow> contenders();
/// Errors: usage (bench_c3) there is none of that name; says which there are.
Result<const ContenderRow*> contender_named(std::string_view name);

/// Where the model is.
struct ModelPaths {
  std::string folder;    ///< of Hugging Face
  std::string graph;     ///< the SavedModel made of it
  std::string prepared;  ///< what `tandem bench prepare` made of it; "": nothing
};
/// A file or folder in a folder that `bench prepare` makes: "bf16.savedmodel", "onnx", "f32.gguf"; "": reads
/// none.
std::string prepared_name(const ContenderRow& row);

/// One answer.
struct TimedAnswer {
  double seconds = 0;
  uint64_t peak_bytes = 0;      ///< largest resident memory of the process so far
  std::vector<float> logits;    ///< [batch, vocab]
  std::vector<int32_t> tokens;  ///< [batch, steps + 1], or none
};

class Contender {
 public:
  virtual ~Contender() = default;
  /// Framework, version and what it chose: part of the report.
  virtual const std::map<std::string, std::string>& info() const = 0;
  /// Errors: corrupt (bench_c4) the answer has not the shape that was asked for; the worker's own.
  virtual Result<TimedAnswer> time(std::string_view what, const HostTensor& ids, uint64_t steps) = 0;
};

/// Starts a contender and loads its model; `trial`: it may try out which way is the fastest. Errors:
/// unavailable it is not installed, or died; missing (bench_c7) the file that it reads was not prepared.
Result<std::unique_ptr<Contender>> start_contender(const ContenderRow& row, const ModelPaths& paths,
                                                   int threads, bool trial, double timeout_s);

}  // namespace tandem
