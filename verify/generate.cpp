#include "verify/generate.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tandem {
namespace {

Result<int32_t> most_likely(Engine& engine, const std::vector<int32_t>& ids) {
  const Probe probe = make_probe("", {ids}, Padding::right);
  TANDEM_TRY(const HostTensors outputs, engine.run("logits", probe.inputs(), {"logits"}));
  const auto logits = outputs.find("logits");
  if (logits == outputs.end() || logits->second.dtype != DType::f32 || logits->second.shape.size() != 3 ||
      logits->second.shape[1] != ids.size() || logits->second.shape[2] == 0)
    return unavailable("verify_c4", "the engine gave no logits of [1, {}, vocab]", ids.size());
  const uint64_t vocab = logits->second.shape[2];
  std::vector<float> last(vocab);
  const size_t bytes = vocab * sizeof(float);
  if (logits->second.data.size() < bytes)
    return unavailable("verify_c4", "the engine's logits are cut short");
  std::memcpy(last.data(), logits->second.data.data() + logits->second.data.size() - bytes, bytes);
  if (std::any_of(last.begin(), last.end(), [](float value) { return std::isnan(value); }))
    return not_equal("verify_c4", "the logits hold NaN");
  return static_cast<int32_t>(std::max_element(last.begin(), last.end()) - last.begin());
}

}  // namespace

Result<std::vector<int32_t>> generate(Engine& engine, std::vector<int32_t> prompt,
                                      const GenerateOptions& options, const std::function<Status()>& stop) {
  std::vector<int32_t> made;
  while (made.size() < options.max_new_tokens) {
    if (stop) {
      TANDEM_CHECK(stop());
    }
    TANDEM_TRY(const int32_t id, most_likely(engine, prompt));
    prompt.push_back(id);
    made.push_back(id);
    if (std::find(options.eos_token_ids.begin(), options.eos_token_ids.end(), id) !=
        options.eos_token_ids.end())
      break;
  }
  return made;
}

}  // namespace tandem
