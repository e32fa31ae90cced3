#include "verify/next_logits.h"

#include <algorithm>
#include <cstring>

namespace tandem {

Result<NextLogits> next_logits(Engine& engine, const std::vector<std::vector<int32_t>>& rows) {
  TANDEM_TRY(const HostTensors outputs, engine.last_logits(make_probe("", rows, Padding::left).inputs()));
  const auto found = outputs.find("logits");
  if (found == outputs.end()) return unavailable("verify_c4", "the engine gave no output logits");
  const HostTensor& logits = found->second;
  const Shape& shape = logits.shape;
  if (logits.dtype != DType::f32 || shape.size() != 3 || shape[0] != rows.size() || shape[1] != 1 ||
      shape[2] == 0 || logits.data.size() / sizeof(float) / shape[2] != rows.size())
    return unavailable("verify_c4", "the engine's logits are {}{}, expected float32[{}, 1, vocab]",
                       logits.dtype, to_string(shape), rows.size());
  NextLogits next{std::vector<float>(rows.size() * shape[2]), shape[2]};
  std::memcpy(next.values.data(), logits.data.data(), next.values.size() * sizeof(float));
  return next;
}

int32_t most_likely(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

void keep_allowed(std::span<float> logits, const std::vector<bool>& allowed) {
  if (allowed.empty()) return;
  const float smallest = *std::min_element(logits.begin(), logits.end());
  for (size_t id = 0; id < logits.size(); ++id)
    if (id >= allowed.size() || !allowed[id]) logits[id] = smallest;
}

}  // namespace tandem
