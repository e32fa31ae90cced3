#include "contract/ops/last_tokens.h"

#include "contract/ops/op.h"

namespace tandem {
namespace {

Error too_few(int64_t count, uint64_t tokens) {
  return invalid("last_tokens_c2", "count is {}, expected 1 to the {} tokens of x", count, tokens);
}

Result<std::vector<TensorType>> infer(const Node& node, std::span<const TensorType> inputs) {
  const TensorType& x = inputs[0];
  const int64_t count = int_attribute(node, "count");
  if (x.rank() < 2) return invalid("last_tokens_c1", "x is {}, expected [batch, tokens, ...]", x);
  const Dim& tokens = x.shape[1];
  if (count < 1 || count > INT32_MAX || (tokens.fixed() && static_cast<uint64_t>(count) > tokens.size))
    return too_few(count, tokens.fixed() ? tokens.size : INT32_MAX);
  TensorType y = x;
  y.shape[1] = Dim(static_cast<uint64_t>(count));
  return std::vector{y};
}

template <class Number>
Outputs<Number> evaluate(const Node& node, std::span<const Value<Number>> inputs) {
  const Value<Number>& x = inputs[0];
  const auto count = static_cast<size_t>(int_attribute(node, "count"));
  const size_t tokens = x.shape[1];
  if (count > tokens) return too_few(static_cast<int64_t>(count), tokens);
  size_t width = 1;
  for (size_t axis = 2; axis < x.shape.size(); ++axis) width *= x.shape[axis];
  Value<Number> y{x.shape, {}};
  y.shape[1] = count;
  for (size_t b = 0; b < x.shape[0]; ++b) {
    const auto end = x.data.begin() + (b + 1) * tokens * width;
    y.data.insert(y.data.end(), end - count * width, end);
  }
  return outputs(std::move(y));
}

}  // namespace

const OpRow kLastTokens{"last_tokens",  1, 1, {{"count", AttributeKind::integer}}, infer, evaluate<double>,
                        evaluate<float>};

}  // namespace tandem
