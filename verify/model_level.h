#pragma once
// The model level: logits of both sides over the probes, at real tokens only.

#include <functional>
#include <memory>
#include <optional>

#include "text/tokenizer.h"
#include "verify/probes.h"
#include "verify/tolerance.h"

namespace tandem {

/// A token whose routing hangs on less than the arithmetic can hold: another order of summation may choose
/// another expert.
struct NearTie {
  std::string probe;
  uint64_t row, token, moe_layer;
  float margin;            ///< between the last chosen and the first rejected expert (or group)
  std::string piece = {};  ///< the token itself, where there is a tokenizer: add_pieces
};

struct ProbeResult {
  std::string name;
  uint64_t prompts = 0;  ///< rows of its batch
  Metrics metrics;
  bool forced = false;                ///< measured with the reference's experts at near ties
  std::optional<FromExact> exact;     ///< measured where the fixed bar on the difference did not hold
  std::vector<std::string> failures;  ///< empty: equal
};

/// The likelihoods of one real token. KL(reference || other) is in nats, infinite where a logit is not
/// finite; there the most likely ids are -1.
struct TokenResult {
  std::string probe;
  uint64_t row = 0, token = 0;
  int32_t position = 0;
  double kl = 0;
  int32_t reference_id = -1, other_id = -1;
  std::string piece = {}, reference_piece = {},
              other_piece = {};  ///< of the token, and of both choices: add_pieces
};
inline constexpr size_t kWorstTokens = 10;

/// KL along the first row of one probe, thinned out to kShownPositions: of neighbours the largest stands.
struct PositionKl {
  int32_t position = 0;
  double kl = 0;  ///< as TokenResult
};
inline constexpr size_t kShownPositions = 400;

struct ModelLevel {
  std::vector<ProbeResult> probes;
  std::vector<TokenResult> worst_tokens;  ///< of all probes, those of the largest KL first
  std::string longest_probe;              ///< that `positions` are of
  std::vector<PositionKl> positions;
  std::vector<NearTie> near_ties;
  std::vector<std::string> skipped;  ///< probes that could not be made, and why
  Metrics total;
  Tolerance tolerance = kTolerances[0];
  double atol = 0;
  uint64_t prompts() const;
  bool passed() const;
};
Json to_json(const ModelLevel& level);

struct ModelLevelOptions {
  DType lowest = DType::f32;  ///< lowest precision that takes part: its row of the tolerance table holds
  double atol = 0;            ///< 0: the table's bar
  uint64_t moe_layers = 0;
  uint64_t num_experts_per_tok = 0;
  bool reference_has_margins = false;  ///< the reference is the hf engine, which tells routing margins
  /// The contract in float64 (the torch engine); null where it cannot be had. Called at most once.
  std::function<Result<Engine*>()> start_exact;
};

/// Runs every probe on both engines. Where a mixture's logits differ, tokens whose routing margin in the
/// reference is below the table's are listed, and the probe is compared again with the reference's experts
/// there. In float32 they are few (0.1 % of a probe's tokens, or one); in 16 bits they may be many, since
/// routing there hangs on rounding. Where in float32 the fixed bar on the absolute difference alone
/// does not hold, both sides are measured against the contract's float64: real models reach hidden states in
/// the thousands, where PyTorch's own float32 is further from exact than any fixed bar. Errors: those of the
/// engines; verify_c4 an engine answers with another shape.
Result<ModelLevel> compare_models(Engine& reference, Engine& other, const std::vector<Probe>& probes,
                                  const ModelLevelOptions& options);

/// Fills in the pieces of near ties and worst tokens; `probes` are those that were compared.
void add_pieces(ModelLevel& level, const std::vector<Probe>& probes, const text::Tokenizer& tokenizer);

/// At most `shown` of the positions, in order: of each run of neighbours that of the largest KL.
std::vector<PositionKl> thinned(const std::vector<PositionKl>& positions, size_t shown);

/// The tokens of a probe whose routing in the reference hangs on less than the table's margin; for mixtures
/// whose reference tells margins. Errors: as compare_models.
Result<std::vector<NearTie>> routing_near_ties(Engine& reference, const Probe& probe,
                                               const ModelLevelOptions& options);

}  // namespace tandem
