#include "contract/ops/slice.h"

#include "contract/ops/op.h"

namespace tandem {
namespace {

Result<std::vector<TensorType>> infer(const Node& node, std::span<const TensorType> inputs) {
  const TensorType& x = inputs[0];
  const int64_t begin = int_attribute(node, "begin"), size = int_attribute(node, "size");
  if (x.rank() == 0 || !x.shape.back().fixed())
    return invalid("slice_c1", "x is {}, expected a last axis of a fixed size", x);
  const uint64_t n = x.shape.back().size;
  if (begin < 0 || size < 1 || static_cast<uint64_t>(size) > n || static_cast<uint64_t>(begin) > n - size)
    return invalid("slice_c2", "begin is {} and size is {}, the last axis has {}", begin, size, n);
  TensorType y = x;
  y.shape.back() = static_cast<uint64_t>(size);
  return std::vector{y};
}

template <class Number>
Outputs<Number> evaluate(const Node& node, std::span<const Value<Number>> inputs) {
  const Value<Number>& x = inputs[0];
  const size_t begin = int_attribute(node, "begin"), size = int_attribute(node, "size");
  Value<Number> y{x.shape, {}};
  y.shape.back() = size;
  y.data.reserve(rows(x) * size);
  for (size_t row = 0; row < rows(x); ++row) {
    const auto first = x.data.begin() + row * x.shape.back() + begin;
    y.data.insert(y.data.end(), first, first + size);
  }
  return outputs(std::move(y));
}

}  // namespace

const OpRow kSlice{"slice",
                   1,
                   1,
                   {{"begin", AttributeKind::integer}, {"size", AttributeKind::integer}},
                   infer,
                   evaluate<double>,
                   evaluate<float>};

}  // namespace tandem
