#include "contract/ops/append.h"

#include "contract/ops/op.h"

namespace tandem {
namespace {

Result<std::vector<TensorType>> infer(const Node& node, std::span<const TensorType> inputs) {
  const TensorType &past = inputs[0], &added = inputs[1];
  const int64_t axis = int_attribute(node, "axis");
  if (axis < 1 || axis >= static_cast<int64_t>(past.rank()))
    return invalid("append_c1", "axis is {}, expected one of {} but the first", axis, past);
  TensorType like = added;
  if (added.rank() == past.rank()) like.shape[axis] = past.shape[axis];
  if (like != past)
    return invalid("append_c2", "past is {} and new is {}, expected equal types but for axis {}", past, added,
                   axis);
  const std::string& length = string_attribute(node, "length");
  if (length.empty() || length == past.shape[axis].symbol || length == added.shape[axis].symbol)
    return invalid("append_c3", "length is \"{}\", expected a name of its own for axis {} of both", length,
                   axis);
  like.shape[axis] = Dim(length);
  return std::vector{like};
}

template <class Number>
Outputs<Number> evaluate(const Node& node, std::span<const Value<Number>> inputs) {
  const Value<Number>&past = inputs[0], &added = inputs[1];
  const auto axis = static_cast<size_t>(int_attribute(node, "axis"));
  size_t before = 1, after = 1;
  for (size_t i = 0; i < axis; ++i) before *= past.shape[i];
  for (size_t i = axis + 1; i < past.shape.size(); ++i) after *= past.shape[i];
  const size_t a = past.shape[axis] * after, b = added.shape[axis] * after;
  Value<Number> y{past.shape, {}};
  y.shape[axis] += added.shape[axis];
  y.data.reserve(past.data.size() + added.data.size());
  for (size_t i = 0; i < before; ++i) {
    y.data.insert(y.data.end(), past.data.begin() + i * a, past.data.begin() + (i + 1) * a);
    y.data.insert(y.data.end(), added.data.begin() + i * b, added.data.begin() + (i + 1) * b);
  }
  return outputs(std::move(y));
}

}  // namespace

const OpRow kAppend{"append",
                    2,
                    2,
                    {{"axis", AttributeKind::integer}, {"length", AttributeKind::text}},
                    infer,
                    evaluate<double>,
                    evaluate<float>};

}  // namespace tandem
