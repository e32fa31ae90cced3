#pragma once
// Token after token, by any engine.

#include "generate/sampling.h"
#include "verify/next_logits.h"

namespace tandem {

/// The token that follows `ids`: where samplers and engines with a cache fit in. From call to call `ids`
/// grows by the token that was given.
using NextToken = std::function<Result<int32_t>(const std::vector<int32_t>& ids)>;

/// The most likely token (the lowest id of equals) among the allowed ones (see keep_allowed). `engine` must
/// outlive it. Errors: the engine's; verify_c4 odd or NaN logits.
NextToken greedy(Engine& engine, std::vector<bool> allowed = {});

/// By the rules of docs/sampling.md, among the allowed ones; its calls are the steps of row 0. Options must
/// have been checked. Errors: the engine's; those of sample_token.
NextToken sampled(Engine& engine, const SamplingOptions& options, std::vector<bool> allowed = {});

/// Why the tokens end.
enum class Finish { stop_token, stop_string, length, interrupted };
std::string_view name(Finish finish);  ///< "stop_token", ..., as in --json

struct GenerateOptions {
  uint64_t max_new_tokens = 16;
  std::vector<int32_t> stop_ids = {};          ///< ends after one of these
  std::function<bool(int32_t id)> go_on = {};  ///< told each token but a stop token; false ends (stop_string)
  std::function<bool()> interrupted = {};      ///< asked before each step
};

struct Generated {
  std::vector<int32_t> ids;  ///< the new ones, the stop token included
  Finish finish = Finish::length;
};

/// Continues `ids`. Errors: those of `next`.
Result<Generated> generate(const NextToken& next, std::vector<int32_t> ids, const GenerateOptions& options);

}  // namespace tandem
