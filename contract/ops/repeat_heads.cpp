#include "contract/ops/repeat_heads.h"

#include "contract/ops/op.h"

namespace tandem {
namespace {

Result<std::vector<TensorType>> infer(const Node& node, std::span<const TensorType> inputs) {
  const TensorType& x = inputs[0];
  const int64_t heads = int_attribute(node, "heads");
  if (!is_float_of_rank(x, 4) || x.shape[1] != Dim(1))
    return invalid("repeat_heads_c1", "x is {}, expected a float type and [batch, 1, tokens, size]", x);
  if (heads < 1) return invalid("repeat_heads_c2", "heads is {}, expected at least 1", heads);
  TensorType y = x;
  y.shape[1] = static_cast<uint64_t>(heads);
  return std::vector{y};
}

template <class Number>
Outputs<Number> evaluate(const Node& node, std::span<const Value<Number>> inputs) {
  const Value<Number>& x = inputs[0];
  const size_t heads = int_attribute(node, "heads"), head = x.shape[2] * x.shape[3];
  Value<Number> y{x.shape, {}};
  y.shape[1] = heads;
  y.data.reserve(x.data.size() * heads);
  for (size_t b = 0; b < x.shape[0]; ++b)
    for (size_t h = 0; h < heads; ++h)
      y.data.insert(y.data.end(), x.data.begin() + b * head, x.data.begin() + (b + 1) * head);
  return outputs(std::move(y));
}

}  // namespace

const OpRow kRepeatHeads{"repeat_heads", 1, 1, {{"heads", AttributeKind::integer}}, infer, evaluate<double>,
                         evaluate<float>};

}  // namespace tandem
