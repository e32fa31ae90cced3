#pragma once
// One tap of two sides: how far they are apart, how far each is from the contract's float64, and what that
// means.

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "engines/engine.h"
#include "verify/host_values.h"
#include "verify/tolerance.h"

namespace tandem {

/// Which elements count: those of real tokens. The batch is axis 0.
struct TokenMask {
  uint64_t batch = 0, tokens = 0;
  std::vector<int32_t> mask;  ///< [batch, tokens], 0 or 1
  size_t token_axis = 1;      ///< of the tensors that are measured
};

/// Sums over the compared values of one tap on one probe.
struct TapDistance {
  uint64_t values = 0;      ///< compared: finite ones, and those that are not
  uint64_t not_finite = 0;  ///< NaN or infinite on either side
  double max_abs = 0;       ///< of the reference's values
  double rms = 0;           ///< of float64's values, or the reference's where there is no float64
  double max_abs_error = 0, rms_error = 0;  ///< left - right
  bool has_exact = false;
  double reference_max = 0, reference_rms = 0;  ///< reference - float64
  double other_max = 0, other_rms = 0;          ///< other - float64
  uint64_t worst_row = 0, worst_token = 0;      ///< where `other` (or the difference) is largest
  /// Of a rotary table: the largest angle, in radians, that its cosines were taken of, else 0. An angle's own
  /// rounding, and that of the power that its frequency is, moves a cosine by as much.
  double angle = 0;
};

/// Tensors of one shape, of any float dtypes. `exact` may be null, and `exact_of_other` where the other side
/// had inputs of its own. Errors: verify_c4 (not_equal) the shapes differ, or do not fit the mask.
Result<TapDistance> measure(const HostTensor& reference, const HostTensor& other, const HostTensor* exact,
                            const HostTensor* exact_of_other, const TokenMask& mask);

enum class Verdict { equal, different, reference_disagrees };
std::string_view name(Verdict verdict);  ///< "equal", "different", "contract and reference disagree"

/// A tap over all probes.
struct TapResult {
  std::string tap;    ///< "model.layers.3.self_attn.q_proj"
  std::string probe;  ///< where it was worst
  TapDistance worst;  ///< of that probe
  uint64_t values = 0;
  std::vector<std::pair<std::string, TapDistance>> probes;  ///< by name
  /// The largest of (figure / its bar) on any probe: above 1 is out of line. Nothing where no bar decides: a
  /// tap that one side lacks, a router's choices.
  std::optional<double> over_bar;
  Verdict verdict = Verdict::equal;
  std::vector<std::string> failures;  ///< a line each, with the probe's name
  bool hidden = false;  ///< a side says that it does not show it: left out, neither good nor bad
  bool equal() const { return hidden || (verdict == Verdict::equal && values > 0); }
};
Json to_json(const TapResult& result);

/// How the reference's own error may be judged: after one layer, or after the whole stack.
enum class Depth { layer, stack };

/// What does not hold. With float64: first that the reference agrees with it at all, then that max and RMS of
/// (other - float64) are each at most kExactFactor times the reference's, or kExactFloor of the tap's RMS.
/// The reference's errors are those of the probe or of all probes (`over_all`), whichever is larger: of a few
/// values, one of them a hundred times as large as the rest, the error is a matter of luck. Without float64:
/// the fixed bar on the difference, in proportion where values pass kFixedBarRange. NaN, and nothing
/// compared, never pass.
struct TapVerdict {
  Verdict verdict = Verdict::equal;
  double over_bar = 0;  ///< as TapResult; infinite for NaN, and where nothing may differ and something does
  std::vector<std::string> failures;
};
struct OverAll {
  double reference_rms = 0;  ///< RMS of the reference's distance from float64 over all probes
  double reference_max = 0;  ///< the reference's largest distance from float64 over all probes
  double max_abs = 0;        ///< the largest value
};
TapVerdict judge(const TapDistance& distance, const Tolerance& tolerance, Depth depth,
                 const OverAll& over_all = {});

/// Adds one probe's distance to a tap's result; judged by `finish`, once all probes are there.
void add(TapResult& result, const std::string& probe, const TapDistance& distance);
void finish(TapResult& result, const Tolerance& tolerance, Depth depth);
/// A tap that one side lacks: never equal.
TapResult missing_tap(std::string tap, std::string_view side);

}  // namespace tandem
