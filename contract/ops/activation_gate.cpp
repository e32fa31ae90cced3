#include "contract/ops/activation_gate.h"

#include "contract/ops/activation.h"
#include "contract/ops/op.h"

namespace tandem {
namespace {

Result<std::vector<TensorType>> infer(const Node& node, std::span<const TensorType> inputs) {
  const TensorType& gate = inputs[0];
  if (!is_float(gate.dtype)) return invalid("activation_gate_c1", "gate is {}, expected a float type", gate);
  if (inputs[1] != gate)
    return invalid("activation_gate_c2", "up is {}, expected {} as gate", inputs[1], gate);
  TANDEM_CHECK(check_activation(node, "activation_gate_c3"));
  return std::vector{gate};
}

template <class Number>
Outputs<Number> evaluate(const Node& node, std::span<const Value<Number>> inputs) {
  const Activation& act = *find_activation(string_attribute(node, "hidden_act"));
  Value<Number> y = inputs[0];
  for (size_t i = 0; i < y.data.size(); ++i) y.data[i] = act(y.data[i]) * inputs[1].data[i];
  return outputs(std::move(y));
}

}  // namespace

const OpRow kActivationGate{
    "activation_gate", 2, 2, {{"hidden_act", AttributeKind::text}}, infer, evaluate<double>, evaluate<float>};

}  // namespace tandem
