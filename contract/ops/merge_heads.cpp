#include "contract/ops/merge_heads.h"

#include "contract/ops/op.h"

namespace tandem {
namespace {

Result<std::vector<TensorType>> infer(const Node&, std::span<const TensorType> inputs) {
  const TensorType& x = inputs[0];
  if (!is_float_of_rank(x, 4))
    return invalid("merge_heads_c1", "x is {}, expected a float type and [batch, heads, tokens, size]", x);
  const auto width = checked_mul(x.shape[1].size, x.shape[3].size);
  if (!x.shape[1].fixed() || !x.shape[3].fixed() || !width)
    return invalid("merge_heads_c2", "x is {}, expected fixed heads and size with a product below 2^64", x);
  return std::vector{TensorType{x.dtype, {x.shape[0], x.shape[2], *width}}};
}

template <class Number>
Outputs<Number> evaluate(const Node&, std::span<const Value<Number>> inputs) {
  const Value<Number>& x = inputs[0];
  const size_t batch = x.shape[0], heads = x.shape[1], tokens = x.shape[2], size = x.shape[3];
  Value<Number> y{{batch, tokens, heads * size}, {}};
  y.data.reserve(x.data.size());
  for (size_t b = 0; b < batch; ++b)
    for (size_t t = 0; t < tokens; ++t)
      for (size_t h = 0; h < heads; ++h) {
        const auto part = x.data.begin() + ((b * heads + h) * tokens + t) * size;
        y.data.insert(y.data.end(), part, part + size);
      }
  return outputs(std::move(y));
}

}  // namespace

const OpRow kMergeHeads{"merge_heads", 1, 1, {}, infer, evaluate<double>, evaluate<float>};

}  // namespace tandem
