#pragma once
// `tandem bench infer`: contenders on one model, in turn, and only what agrees is timed.

#include <functional>
#include <string>
#include <vector>

#include "base/tensor_source.h"
#include "bench/contender.h"
#include "bench/limits.h"
#include "bench/statistics.h"

namespace tandem {

/// A prompt; the steps after a prompt; or a process from its start through loading to a prompt's token.
enum class Measure { prefill, decode, load };

/// What is timed.
struct Scenario {
  Measure measure = Measure::prefill;
  uint64_t batch = 1;
  uint64_t prompt = 128;  ///< tokens
  uint64_t steps = 0;     ///< of decode
  bool decode() const { return measure == Measure::decode; }
  std::string name() const;                                                ///< "decode 128-640, batch 8"
  uint64_t tokens() const { return batch * (decode() ? steps : prompt); }  ///< that the seconds are of
};

struct InferOptions {
  std::vector<std::string> contenders;  ///< the first is what ratios are to
  std::vector<Scenario> scenarios;
  int threads = 0;  ///< 0: as many as there are processors
  uint64_t rounds = 5;
  double timeout_s = 1800;  ///< of a call: a compiler may take its time
  std::function<Status(std::string_view step)> progress;
};

/// What a model must do at least for a token, whoever runs it: 2 floating-point operations for each weight
/// that takes part, and a read of that weight for each step. Attention's own products are left out; so are
/// the caches.
struct ModelCost {
  uint64_t weights = 0;        ///< all values
  double weights_a_token = 0;  ///< that take part in one token's products: of experts those chosen
  uint64_t head_and_rest = 0;  ///< read in every step
  uint64_t experts = 0;        ///< values of all routed experts
  double chosen_share = 1;     ///< of the experts, for one token
  /// Bytes of weights read for one step of that many rows, or for a prompt of that many tokens: at most all.
  double bytes_a_step(uint64_t rows, double weight_bytes = 4) const;
};

/// One contender in one scenario.
struct InferResult {
  std::string contender;
  std::vector<double> seconds;  ///< a round each; none where `failure` says why
  std::vector<double> loaded;   ///< of load: seconds until the model was loaded, of those
  std::string failure;
  double max_abs_error = 0;  ///< of the prompt's last logits, from the first contender's
  double logits_rms = 0;     ///< of the first contender
  uint64_t same_tokens = 0;  ///< decoded as the first contender does, until the first that is not
  bool near_tie = false;     ///< where that was, the first contender's two logits are within the tolerance
};

struct ScenarioReport {
  Scenario scenario;
  std::vector<double> memory_bytes_per_s;  ///< the memory's limit, before each round
  std::vector<InferResult> results;
};

struct InferReport {
  Limits limits;
  ModelCost cost;
  int threads = 0;
  std::string model;
  std::map<std::string, std::map<std::string, std::string>> contenders;  ///< name to what it says of itself
  std::map<std::string, uint64_t> peak_bytes;
  std::map<std::string, std::string> not_started;  ///< name to why
  std::vector<ScenarioReport> results;
};
Json to_json(const InferReport& report);

/// Tokens a second of a result, and its ratio to that of another: above 1 is faster.
Interval tokens_per_s(const Scenario& scenario, const InferResult& result);
Interval speed_ratio(const InferResult& result, const InferResult& reference);

/// What a checkpoint's tensors (names as in Hugging Face) and config cost.
ModelCost cost_of(const TensorSource& tensors, const Json& config);

/// All contenders, started once and timed in turn; for load, once more in each round. A contender that is not
/// installed, or fails, is told in the report; the first must run. Errors: usage (bench_c5) no contender or
/// scenario; those of the first contender; progress' own.
Result<InferReport> bench_infer(const ModelPaths& paths, uint64_t vocab_size, const InferOptions& options);

}  // namespace tandem
