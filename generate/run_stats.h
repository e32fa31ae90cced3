#pragma once
// How long a run took, and what was compiled in it.

#include <chrono>
#include <optional>

#include "base/json.h"
#include "generate/speculative.h"

namespace tandem {

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_ = Clock::now();
};

struct WarmUp {
  double seconds = 0;
  uint64_t compilations = 0;
};

struct RunStats {
  double load_s = 0;  ///< model opened and engine started
  std::optional<WarmUp> warm_up = {};
  // Of the newest answer:
  uint64_t prompt_tokens = 0;
  std::vector<double> token_s = {};  ///< of each new token
  uint64_t compilations = 0;         ///< while they were made
  uint64_t compilations_before = 0;
  std::optional<Drafts> drafts = {};  ///< tokens were made several at once, with drafts
};

/// Has an engine compile what prompts of these lengths need, and the tokens after them: a prompt of each
/// length, of ids 0, and one token more. Errors: those of the engine.
Status warm_up(Engine& engine, const std::vector<uint64_t>& lengths, RunStats& stats);

/// `next` for an answer to a prompt, with the seconds of each call kept in `stats`, which must outlive it.
NextToken begin_answer(RunStats& stats, NextToken next, uint64_t prompt_tokens);
/// The answer is there. Errors: those of the engine.
Status end_answer(RunStats& stats, Engine& engine);

/// The median of all tokens after the first; of tokens that were made several at once the mean of all.
/// Nothing if there are none.
std::optional<double> per_token_s(const RunStats& stats);

/// {"load_s", "warm_up_s"?, "first_token_s", "per_token_s", "compilations": {"warm_up"?, "answer"},
/// "drafts"?:
/// {"drafted", "accepted"}}, null for what there was none of.
Json to_json(const RunStats& stats);
/// The same as lines for people.
std::string to_text(const RunStats& stats);

}  // namespace tandem
