#include "engines/last_token.h"

#include <algorithm>

namespace tandem {

Status keep_last_logits(HostTensors& tensors) {
  const auto found = tensors.find("logits");
  if (found == tensors.end()) return invalid("engine_c11", "no logits to take the last token of");
  HostTensor& logits = found->second;
  const Result<uint64_t> bytes = byte_count(logits.dtype, logits.shape);
  if (logits.shape.size() != 3 || logits.shape[1] == 0 || !bytes.ok() || bytes.value() != logits.data.size())
    return invalid("engine_c11", "logits are {}{} in {} bytes, expected [batch, tokens, vocab]", logits.dtype,
                   to_string(logits.shape), logits.data.size());
  if (logits.data.empty()) {
    logits.shape[1] = 1;
    return {};
  }
  const size_t row = logits.data.size() / logits.shape[0];
  const size_t token = row / logits.shape[1];
  for (size_t i = 0; i < logits.shape[0]; ++i)
    std::copy_n(logits.data.begin() + (i + 1) * row - token, token, logits.data.begin() + i * token);
  logits.data.resize(logits.shape[0] * token);
  logits.shape[1] = 1;
  return {};
}

}  // namespace tandem
