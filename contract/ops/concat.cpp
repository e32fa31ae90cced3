#include "contract/ops/concat.h"

#include <algorithm>

#include "contract/ops/op.h"

namespace tandem {
namespace {

Result<std::vector<TensorType>> infer(const Node&, std::span<const TensorType> inputs) {
  const TensorType &x = inputs[0], &y = inputs[1];
  for (const TensorType& input : inputs)
    if (input.rank() == 0 || !input.shape.back().fixed())
      return invalid("concat_c1", "an operand is {}, expected a last axis of a fixed size", input);
  if (x.dtype != y.dtype || x.rank() != y.rank() ||
      !std::equal(x.shape.begin(), x.shape.end() - 1, y.shape.begin()))
    return invalid("concat_c2", "x is {} and y is {}, expected equal types but for the last axis", x, y);
  const auto size = checked_add(x.shape.back().size, y.shape.back().size);
  if (!size) return invalid("concat_c2", "the last axes of {} and {} do not add up in 64 bits", x, y);
  TensorType z = x;
  z.shape.back() = *size;
  return std::vector{z};
}

template <class Number>
Outputs<Number> evaluate(const Node&, std::span<const Value<Number>> inputs) {
  const Value<Number>&x = inputs[0], &y = inputs[1];
  const size_t a = x.shape.back(), b = y.shape.back();
  Value<Number> z{x.shape, {}};
  z.shape.back() = a + b;
  z.data.reserve(x.data.size() + y.data.size());
  for (size_t row = 0; row < rows(x); ++row) {
    z.data.insert(z.data.end(), x.data.begin() + row * a, x.data.begin() + (row + 1) * a);
    z.data.insert(z.data.end(), y.data.begin() + row * b, y.data.begin() + (row + 1) * b);
  }
  return outputs(std::move(z));
}

}  // namespace

const OpRow kConcat{"concat", 2, 2, {}, infer, evaluate<double>, evaluate<float>};

}  // namespace tandem
