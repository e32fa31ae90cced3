#pragma once
// What both sides are asked: token ids, mask and positions.

#include "arch/architecture.h"
#include "base/file.h"
#include "engines/engine.h"

namespace tandem {

/// Seeds of generated ids: of the default probes, and of random_prompts.
inline constexpr uint64_t kProbeSeed = 2026, kPromptSeed = 4;

/// One call's inputs, all [batch, tokens].
struct Probe {
  std::string name;
  uint64_t batch = 0;
  uint64_t tokens = 0;
  std::vector<int32_t> input_ids;
  std::vector<int32_t> attention_mask;
  std::vector<int32_t> position_ids;
  HostTensors inputs() const;
};

/// Rows of ids, padded on one side with `pad` to the longest; positions are max(cumsum(mask) - 1, 0).
enum class Padding { left, right };
Probe make_probe(std::string name, const std::vector<std::vector<int32_t>>& rows, Padding padding);

/// A short prompt, a batch padded on the left, one padded on the right, one prompt of 700 tokens, and gapped
/// positions that cross every boundary of the rotary scaling. Ids come from a fixed generator.
std::vector<Probe> default_probes(const Model& model);

/// The generator of their ids, for records.
inline constexpr std::string_view kProbeGenerator = "splitmix64";

/// Ids, padding included, of a probe that every layer is run on.
inline constexpr uint64_t kLayerTokens = 256;
/// The probes of the layer level: those of up to kLayerTokens, or the longest; and of the module level: those
/// and the longest.
struct InnerProbes {
  std::vector<Probe> layer, module;
};
InnerProbes inner_probes(const std::vector<Probe>& probes);

/// Prompts of 3 to 40 ids from a fixed generator, of lengths that vary with their number.
std::vector<std::vector<int32_t>> random_prompts(uint64_t vocab_size, uint64_t count);

/// Ids of the longest prompt among the default probes.
inline constexpr uint64_t kLongTokens = 700;

/// One probe a line of ids ("1,2,3" or "1 2 3"), and one padded batch of all lines up to 64 ids if there are
/// several. Errors: verify_c3 a line without ids, not a number, or an id at or above vocab_size; at most 1 M
/// ids.
Result<std::vector<Probe>> probes_from_text(std::string_view text, uint64_t vocab_size);

/// The same from a file.
Result<std::vector<Probe>> probes_from_file(const FileSystem& files, const std::string& path,
                                            uint64_t vocab_size);

/// One line of ids. Errors: verify_c3.
Result<std::vector<int32_t>> parse_ids(std::string_view line, uint64_t vocab_size);

}  // namespace tandem
