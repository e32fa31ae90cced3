#include "contract/ops/rotary.h"

#include "contract/ops/op.h"

namespace tandem {
namespace {

Result<std::vector<TensorType>> infer(const Node&, std::span<const TensorType> inputs) {
  const TensorType& x = inputs[0];
  if (!is_float_of_rank(x, 4) || !x.shape[3].fixed() || x.shape[3].size % 2 != 0)
    return invalid("rotary_c1",
                   "x is {}, expected a float type and [batch, heads, tokens, dim] with an even dim", x);
  const TensorType table{x.dtype, {x.shape[0], x.shape[2], x.shape[3]}};
  for (const TensorType& angle : inputs.subspan(1))
    if (angle != table) return invalid("rotary_c2", "cos or sin is {}, expected {}", angle, table);
  return std::vector{x};
}

template <class Number>
Outputs<Number> evaluate(const Node& node, std::span<const Value<Number>> inputs) {
  const Value<Number>& x = inputs[0];
  const bool interleaved = bool_attribute(node, "interleaved");
  const size_t heads = x.shape[1], tokens = x.shape[2], dim = x.shape[3], half = dim / 2;
  Value<Number> y = x;
  for (size_t row = 0; row < rows(x); ++row) {  // row = (b * heads + h) * tokens + t
    const size_t angle = (row / (heads * tokens) * tokens + row % tokens) * dim;
    const Number* from = x.data.data() + row * dim;
    Number* to = y.data.data() + row * dim;
    for (size_t i = 0; i < half; ++i) {
      const Number a = interleaved ? from[2 * i] : from[i];
      const Number b = interleaved ? from[2 * i + 1] : from[half + i];
      const Number cos = inputs[1].data[angle + i], sin = inputs[2].data[angle + i];
      to[i] = a * cos - b * sin;
      to[half + i] = b * cos + a * sin;
    }
  }
  return outputs(std::move(y));
}

}  // namespace

const OpRow kRotary{"rotary",       3, 3, {{"interleaved", AttributeKind::boolean}}, infer, evaluate<double>,
                    evaluate<float>};

}  // namespace tandem
