#pragma once
// The module level: hidden states down the stack of a whole run, and how the error grows on its way.

#include "verify/layer_level.h"

namespace tandem {

/// How the other side's error grows down the stack.
enum class Growth { steady, jump, with_position };
std::string_view name(Growth growth);  ///< "steady", "jump", "with position"

/// The error at one depth, as a share of the hidden states' RMS, over all probes.
struct DepthError {
  std::string tap;
  double reference = 0,
         other = 0;  ///< RMS of (side - float64); without float64 `other` is RMS of the difference
};

/// The last hidden state's error at one position of the longest probe.
struct PositionError {
  int32_t position = 0;
  double other = 0;  ///< as DepthError
};

struct ModuleLevel {
  std::vector<TapResult> taps;  ///< embedding, each layer's output, last norm
  std::vector<DepthError> depths;
  std::vector<PositionError> positions;
  Growth growth = Growth::steady;
  std::string jump_at;          ///< the first tap out of line, for a jump
  std::string probe;            ///< the longest one
  bool forced_experts = false;  ///< mixtures: the other side ran with the reference's experts
  bool passed() const;
};
Json to_json(const ModuleLevel& level);

/// Errors: those of the engines.
Result<ModuleLevel> compare_modules(const Sides& sides, const std::vector<Probe>& probes);

/// What the errors say: a jump where the first tap out of line is more than kJump times as far off (measured
/// against the reference) as the one before it; with position where the last quarter of the positions is more
/// than kPositionGrowth times as far off as the first; else steady.
inline constexpr double kJump = 8;
inline constexpr double kPositionGrowth = 8;
Growth growth_of(const std::vector<DepthError>& depths, const std::vector<PositionError>& positions,
                 std::optional<size_t> first_out_of_line);

}  // namespace tandem
