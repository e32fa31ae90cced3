#pragma once
// Token after token, by any engine.

#include "generate/sampling.h"
#include "verify/next_logits.h"

namespace tandem {

/// The token that follows `ids`: where samplers and engines with a cache fit in. From call to call `ids`
/// grows by the token that was given.
using NextToken = std::function<Result<int32_t>(const std::vector<int32_t>& ids)>;

/// The most likely token, always (docs/sampling.md).
inline constexpr SamplingOptions kGreedy{.temperature = 0};

/// How the tokens of one text are chosen.
struct Choice {
  SamplingOptions sampling = kGreedy;  ///< checked
  uint64_t prompt_tokens = 0;          ///< ids beyond them were made: how many is the step of the draw
  uint64_t row = 0;                    ///< the text's number among those of one seed
  std::vector<bool> allowed = {};      ///< ids that may be chosen; empty: all; ids beyond its end may not
};

/// The token after `ids`, prompt and what was made, of the logits that an engine gives there. Errors:
/// sampling_c2 NaN, or nothing finite among the allowed; sampling_c3 an id without a logit.
Result<int32_t> choose(std::span<const float> logits, const std::vector<int32_t>& ids, const Choice& choice);

/// The tokens that are chosen of what `engine` computes. `engine` must outlive it. Errors: the engine's;
/// verify_c4 odd logits; those of choose.
NextToken chosen(Engine& engine, Choice choice);
/// The most likely token (the lowest id of equals) among the allowed ones.
NextToken greedy(Engine& engine, std::vector<bool> allowed = {});

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
