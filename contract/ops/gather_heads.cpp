#include "contract/ops/gather_heads.h"

#include "contract/ops/op.h"

namespace tandem {
namespace {

Result<std::vector<TensorType>> infer(const Node& node, std::span<const TensorType> inputs) {
  const TensorType& x = inputs[0];
  if (!is_float_of_rank(x, 4) || !x.shape[1].fixed())
    return invalid("gather_heads_c1", "x is {}, expected a float type and [batch, heads, tokens, size]", x);
  const std::vector<int64_t>& order = ints_attribute(node, "order");
  if (order.empty()) return invalid("gather_heads_c2", "order is empty");
  for (const int64_t head : order)
    if (head < 0 || static_cast<uint64_t>(head) >= x.shape[1].size)
      return invalid("gather_heads_c2", "order holds {}, x has {} heads", head, x.shape[1].size);
  TensorType y = x;
  y.shape[1] = static_cast<uint64_t>(order.size());
  return std::vector{y};
}

template <class Number>
Outputs<Number> evaluate(const Node& node, std::span<const Value<Number>> inputs) {
  const Value<Number>& x = inputs[0];
  const std::vector<int64_t>& order = ints_attribute(node, "order");
  const size_t heads = x.shape[1], head = x.shape[2] * x.shape[3];
  Value<Number> y{x.shape, {}};
  y.shape[1] = order.size();
  y.data.reserve(x.shape[0] * order.size() * head);
  for (size_t b = 0; b < x.shape[0]; ++b)
    for (const int64_t h : order) {
      const auto first = x.data.begin() + static_cast<int64_t>((b * heads + static_cast<size_t>(h)) * head);
      y.data.insert(y.data.end(), first, first + static_cast<int64_t>(head));
    }
  return outputs(std::move(y));
}

}  // namespace

const OpRow kGatherHeads{"gather_heads", 1, 1, {{"order", AttributeKind::integers}}, infer, evaluate<double>,
                         evaluate<float>};

}  // namespace tandem
