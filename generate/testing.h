#pragma once
// A model without weights, and a tokenizer of bytes, for tests.

#include <cstring>

#include "engines/engine.h"
#include "text/testing.h"

namespace tandem {

/// After an id comes the one that `next` names, with logit 2 over 0 for all others; `instead` changes rows.
class ScriptedEngine : public Engine {
 public:
  explicit ScriptedEngine(std::map<int32_t, int32_t> next, uint64_t vocab = 260)
      : next_(std::move(next)), vocab_(vocab) {}
  std::map<int32_t, std::map<int32_t, float>> instead;  ///< after an id: logits of some ids
  int calls = 0;

  const EngineInfo& info() const override { return info_; }
  Result<HostTensors> run(const std::string&, const HostTensors& inputs,
                          const std::vector<std::string>&) override {
    ++calls;
    const HostTensor& input = inputs.at("input_ids");
    std::vector<int32_t> ids(input.data.size() / sizeof(int32_t));
    std::memcpy(ids.data(), input.data.data(), input.data.size());
    std::vector<float> logits(ids.size() * vocab_);
    for (size_t i = 0; i < ids.size(); ++i) {
      float* row = logits.data() + i * vocab_;
      if (const auto found = next_.find(ids[i]); found != next_.end()) row[found->second] = 2;
      if (const auto found = instead.find(ids[i]); found != instead.end())
        for (const auto& [id, logit] : found->second) row[id] = logit;
    }
    HostTensor tensor{
        DType::f32, {1, ids.size(), vocab_}, std::vector<std::byte>(logits.size() * sizeof(float))};
    std::memcpy(tensor.data.data(), logits.data(), tensor.data.size());
    return HostTensors{{"logits", std::move(tensor)}};
  }

 private:
  EngineInfo info_;
  std::map<int32_t, int32_t> next_;
  uint64_t vocab_;
};

/// Bytes are ids; 256 is <s>, special.
inline text::Tokenizer byte_tokenizer() {
  return text::parse({.model = text::byte_bpe({}),
                      .pre_tokenizer = text::kByteLevel,
                      .decoder = text::kByteLevel,
                      .added = text::added_token(256, "<s>")})
      .value();
}

/// An engine that writes a text of letters that are each used once, after `first`.
inline ScriptedEngine writes(int32_t first, std::string_view text) {
  std::map<int32_t, int32_t> next;
  for (const char c : text) {
    next[first] = static_cast<unsigned char>(c);
    first = static_cast<unsigned char>(c);
  }
  return ScriptedEngine(std::move(next));
}

}  // namespace tandem
