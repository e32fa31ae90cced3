#include "contract/ops/rms_norm.h"

#include "contract/ops/op.h"

namespace tandem {
namespace {

Result<std::vector<TensorType>> infer(const Node& node, std::span<const TensorType> inputs) {
  const TensorType& x = inputs[0];
  if (!is_float(x.dtype) || x.rank() == 0)
    return invalid("rms_norm_c1", "x is {}, expected a float type and a last axis", x);
  const TensorType per_channel{x.dtype, {x.shape.back()}};
  if (inputs[1] != per_channel)
    return invalid("rms_norm_c2", "gain is {}, expected {}", inputs[1], per_channel);
  const double epsilon = float_attribute(node, "epsilon");
  if (epsilon <= 0) return invalid("rms_norm_c3", "epsilon is {}, expected a number above 0", epsilon);
  return std::vector{x};
}

template <class Number>
Outputs<Number> evaluate(const Node& node, std::span<const Value<Number>> inputs) {
  const Value<Number>&x = inputs[0], &gain = inputs[1];
  const Number epsilon = static_cast<Number>(float_attribute(node, "epsilon"));
  const size_t hidden = gain.data.size();
  Value<Number> y = x;
  for (size_t row = 0; row < rows(x); ++row) {
    Number* channels = y.data.data() + row * hidden;
    double sum = 0;
    for (size_t i = 0; i < hidden; ++i) sum += static_cast<double>(channels[i]) * channels[i];
    const Number mean = static_cast<Number>(sum / static_cast<double>(hidden));
    const Number inverse = Number(1) / std::sqrt(mean + epsilon);
    for (size_t i = 0; i < hidden; ++i) channels[i] = gain.data[i] * (channels[i] * inverse);
  }
  return outputs(std::move(y));
}

}  // namespace

const OpRow kRmsNorm{"rms_norm",     2, 2, {{"epsilon", AttributeKind::number}}, infer, evaluate<double>,
                     evaluate<float>};

}  // namespace tandem
