#include "contract/ops/positions.h"

#include <algorithm>

#include "contract/ops/op.h"

namespace tandem {
namespace {

Result<std::vector<TensorType>> infer(const Node&, std::span<const TensorType> inputs) {
  const TensorType& mask = inputs[0];
  if (mask.dtype != DType::i32 || mask.rank() != 2)
    return invalid("positions_c1", "attention_mask is {}, expected i32[batch, tokens]", mask);
  return std::vector{mask};
}

template <class Number>
Outputs<Number> evaluate(const Node&, std::span<const Value<Number>> inputs) {
  Value<Number> y = inputs[0];
  const size_t tokens = y.shape[1];
  for (size_t row = 0; row < rows(y); ++row) {
    Number seen = 0;
    for (size_t t = 0; t < tokens; ++t) {
      seen += y.data[row * tokens + t];
      y.data[row * tokens + t] = std::max(seen - Number(1), Number(0));
    }
  }
  return outputs(std::move(y));
}

}  // namespace

const OpRow kPositions{"positions", 1, 1, {}, infer, evaluate<double>, evaluate<float>};

}  // namespace tandem
