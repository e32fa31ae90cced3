#include "contract/ops/select.h"

#include "contract/ops/op.h"

namespace tandem {
namespace {

Result<std::vector<TensorType>> infer(const Node& node, std::span<const TensorType> inputs) {
  const TensorType& x = inputs[0];
  const int64_t axis = int_attribute(node, "axis"), index = int_attribute(node, "index");
  if (x.rank() < 2) return invalid("select_c1", "x is {}, expected two axes or more", x);
  if (axis < 1 || axis >= static_cast<int64_t>(x.rank()))
    return invalid("select_c2", "axis is {}, expected 1 to {}", axis, x.rank() - 1);
  const Dim& dim = x.shape[axis];
  if (!dim.fixed() || index < 0 || static_cast<uint64_t>(index) >= dim.size)
    return invalid("select_c3", "index is {}, axis {} of x is {}", index, axis, to_string(dim));
  TensorType y = x;
  y.shape.erase(y.shape.begin() + axis);
  return std::vector{y};
}

template <class Number>
Outputs<Number> evaluate(const Node& node, std::span<const Value<Number>> inputs) {
  const Value<Number>& x = inputs[0];
  const size_t axis = int_attribute(node, "axis"), index = int_attribute(node, "index");
  size_t before = 1, after = 1;
  for (size_t i = 0; i < axis; ++i) before *= x.shape[i];
  for (size_t i = axis + 1; i < x.shape.size(); ++i) after *= x.shape[i];
  Value<Number> y{x.shape, {}};
  y.shape.erase(y.shape.begin() + axis);
  for (size_t b = 0; b < before; ++b) {
    const auto begin = x.data.begin() + (b * x.shape[axis] + index) * after;
    y.data.insert(y.data.end(), begin, begin + after);
  }
  return outputs(std::move(y));
}

}  // namespace

const OpRow kSelect{"select",
                    1,
                    1,
                    {{"axis", AttributeKind::integer}, {"index", AttributeKind::integer}},
                    infer,
                    evaluate<double>,
                    evaluate<float>};

}  // namespace tandem
