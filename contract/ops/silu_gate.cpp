#include "contract/ops/silu_gate.h"

#include "contract/ops/op.h"

namespace tandem {
namespace {

Result<std::vector<TensorType>> infer(const Node&, std::span<const TensorType> inputs) {
  const TensorType& gate = inputs[0];
  if (!is_float(gate.dtype)) return invalid("silu_gate_c1", "gate is {}, expected a float type", gate);
  if (inputs[1] != gate) return invalid("silu_gate_c2", "up is {}, expected {} as gate", inputs[1], gate);
  return std::vector{gate};
}

template <class Number>
Outputs<Number> evaluate(const Node&, std::span<const Value<Number>> inputs) {
  Value<Number> y = inputs[0];
  for (size_t i = 0; i < y.data.size(); ++i) y.data[i] = silu(y.data[i]) * inputs[1].data[i];
  return outputs(std::move(y));
}

}  // namespace

const OpRow kSiluGate{"silu_gate", 2, 2, {}, infer, evaluate<double>, evaluate<float>};

}  // namespace tandem
