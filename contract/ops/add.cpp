#include "contract/ops/add.h"

#include "contract/ops/op.h"

namespace tandem {
namespace {

Result<std::vector<TensorType>> infer(const Node&, std::span<const TensorType> inputs) {
  const TensorType& x = inputs[0];
  if (!is_float(x.dtype)) return invalid("add_c1", "x is {}, expected a float type", x);
  if (inputs[1] != x) return invalid("add_c2", "y is {}, expected {} as x", inputs[1], x);
  return std::vector{x};
}

template <class Number>
Outputs<Number> evaluate(const Node&, std::span<const Value<Number>> inputs) {
  Value<Number> z = inputs[0];
  for (size_t i = 0; i < z.data.size(); ++i) z.data[i] += inputs[1].data[i];
  return outputs(std::move(z));
}

}  // namespace

const OpRow kAdd{"add", 2, 2, {}, infer, evaluate<double>, evaluate<float>};

}  // namespace tandem
