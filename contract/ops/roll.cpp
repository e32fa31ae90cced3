#include "contract/ops/roll.h"

#include <algorithm>

#include "contract/ops/op.h"

namespace tandem {
namespace {

constexpr int64_t kFarthest = 1 << 20;

Result<std::vector<TensorType>> infer(const Node& node, std::span<const TensorType> inputs) {
  const int64_t axis = int_attribute(node, "axis"), shift = int_attribute(node, "shift");
  if (axis < 0 || static_cast<size_t>(axis) >= inputs[0].rank())
    return invalid("roll_c1", "axis is {}, x is {}", axis, inputs[0]);
  if (shift < -kFarthest || shift > kFarthest)
    return invalid("roll_c2", "shift is {}, expected {} at most either way", shift, kFarthest);
  return std::vector{inputs[0]};
}

template <class Number>
Outputs<Number> evaluate(const Node& node, std::span<const Value<Number>> inputs) {
  const Value<Number>& x = inputs[0];
  const auto axis = static_cast<size_t>(int_attribute(node, "axis"));
  const auto count = static_cast<int64_t>(x.shape[axis]);
  Value<Number> y = x;
  if (x.data.empty()) return outputs(std::move(y));
  const int64_t shift = (int_attribute(node, "shift") % count + count) % count;
  size_t inner = 1;
  for (size_t i = axis + 1; i < x.shape.size(); ++i) inner *= x.shape[i];
  const size_t slab = inner * x.shape[axis];
  for (size_t begin = 0; begin < x.data.size(); begin += slab)  // the last `shift` slices come first
    std::rotate_copy(x.data.begin() + begin, x.data.begin() + begin + slab - shift * inner,
                     x.data.begin() + begin + slab, y.data.begin() + begin);
  return outputs(std::move(y));
}

}  // namespace

const OpRow kRoll{"roll",
                  1,
                  1,
                  {{"axis", AttributeKind::integer}, {"shift", AttributeKind::integer}},
                  infer,
                  evaluate<double>,
                  evaluate<float>};

}  // namespace tandem
