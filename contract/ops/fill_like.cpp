#include "contract/ops/fill_like.h"

#include "contract/ops/op.h"

namespace tandem {
namespace {

Result<std::vector<TensorType>> infer(const Node& node, std::span<const TensorType> inputs) {
  const TensorType& x = inputs[0];
  if (x.rank() < 2) return invalid("fill_like_c1", "x is {}, expected [batch, tokens, ...]", x);
  TensorType y = i32({x.shape[0], x.shape[1]});
  for (const int64_t size : ints_attribute(node, "last")) {
    if (size < 1) return invalid("fill_like_c2", "last holds {}, expected sizes of at least 1", size);
    y.shape.push_back(static_cast<uint64_t>(size));
  }
  const int64_t value = int_attribute(node, "value");
  if (value < INT32_MIN || value > INT32_MAX)
    return invalid("fill_like_c3", "value is {}, which does not fit in i32", value);
  return std::vector{y};
}

template <class Number>
Outputs<Number> evaluate(const Node& node, std::span<const Value<Number>> inputs) {
  Value<Number> y{{inputs[0].shape[0], inputs[0].shape[1]}, {}};
  for (const int64_t size : ints_attribute(node, "last")) y.shape.push_back(static_cast<uint64_t>(size));
  TANDEM_TRY(const uint64_t count, element_count(y.shape));
  y.data.assign(count, static_cast<Number>(int_attribute(node, "value")));
  return outputs(std::move(y));
}

}  // namespace

const OpRow kFillLike{"fill_like",
                      1,
                      1,
                      {{"value", AttributeKind::integer}, {"last", AttributeKind::integers}},
                      infer,
                      evaluate<double>,
                      evaluate<float>};

}  // namespace tandem
