#pragma once
// How tokens shall be chosen, by the command line and by generation_config.json, and what comes of both.

#include <optional>

#include "base/json.h"
#include "generate/sampling.h"

namespace tandem {

/// What one of the two says; the rest is left to the other. See SamplingOptions.
struct SamplingWishes {
  std::optional<bool> do_sample = {};  ///< false: the most likely token
  std::optional<double> temperature = {}, top_p = {}, min_p = {}, repetition_penalty = {};
  std::optional<uint64_t> top_k = {};
  std::optional<uint64_t> seed = {};
};

/// transformers' own where nothing is said and tokens are drawn.
inline constexpr uint64_t kDefaultTopK = 50;

/// What a command line says, alone. Errors (usage): sampling_c1; do_sample is false and a draw is described.
Status check_flags(const SamplingWishes& flags);

/// Tokens are drawn if the flags say anything about drawing (all but repetition_penalty), or do_sample of the
/// file is true; flags come before the file, and `seed` is taken where there is none. Otherwise the
/// temperature is 0, and the penalty is all that is left. `flags` have passed check_flags. Errors:
/// generation_c1 (invalid) a value of the file that is used is out of its range.
Result<SamplingOptions> sampling_options(const SamplingWishes& flags, const SamplingWishes& file,
                                         uint64_t seed);

inline bool draws(const SamplingOptions& options) { return options.temperature > 0; }
/// As in --json: do_sample, repetition_penalty, and the rest where tokens are drawn.
Json to_json(const SamplingOptions& options);
/// The flags that make the same draws again: "--temperature 0.7 --top-k 50 ... --seed 5".
std::string flags_of(const SamplingOptions& options);

}  // namespace tandem
