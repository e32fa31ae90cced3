#pragma once
// What the tests with real frameworks share.

#include <gmock/gmock.h>

#include <cstring>
#include <numeric>

#include "engines/engine.h"

namespace tandem {

inline HostTensor i32_tensor(Shape shape, const std::vector<int32_t>& values) {
  HostTensor tensor{DType::i32, std::move(shape), std::vector<std::byte>(values.size() * sizeof(int32_t))};
  memcpy(tensor.data.data(), values.data(), tensor.data.size());
  return tensor;
}

inline std::vector<float> floats(const HostTensor& tensor) {
  EXPECT_EQ(tensor.dtype, DType::f32);
  std::vector<float> values(tensor.data.size() / sizeof(float));
  memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

/// The inputs of entry "logits" for one unpadded row.
inline HostTensors one_row(const std::vector<int32_t>& ids) {
  std::vector<int32_t> positions(ids.size());
  std::iota(positions.begin(), positions.end(), 0);
  const Shape shape{1, ids.size()};
  return {{"input_ids", i32_tensor(shape, ids)},
          {"attention_mask", i32_tensor(shape, std::vector<int32_t>(ids.size(), 1))},
          {"position_ids", i32_tensor(shape, positions)}};
}

inline float max_difference(std::span<const float> a, std::span<const float> b) {
  EXPECT_EQ(a.size(), b.size());
  EXPECT_FALSE(a.empty());
  float worst = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

inline std::unique_ptr<Engine> started(EngineKind kind, const std::string& path,
                                       const EngineOptions& options = {}) {
  auto engine = Engine::start(kind, path, options);
  EXPECT_TRUE(engine.ok()) << (engine.ok() ? "" : engine.error().message());
  return engine.ok() ? std::move(engine).value() : nullptr;
}

/// Sets an environment variable for a scope.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~ScopedVariable() { unsetenv(name_); }

 private:
  const char* name_;
};

}  // namespace tandem
