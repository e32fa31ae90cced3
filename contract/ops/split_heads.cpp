#include "contract/ops/split_heads.h"

#include "contract/ops/op.h"

namespace tandem {
namespace {

Result<std::vector<TensorType>> infer(const Node& node, std::span<const TensorType> inputs) {
  const TensorType& x = inputs[0];
  const int64_t heads = int_attribute(node, "heads");
  if (!is_float_of_rank(x, 3) || !x.shape[2].fixed())
    return invalid("split_heads_c1", "x is {}, expected a float type and [batch, tokens, heads * size]", x);
  if (heads < 1 || x.shape[2].size % heads != 0)
    return invalid("split_heads_c2", "{} heads do not share a last axis of {}", heads, x.shape[2].size);
  const uint64_t count = static_cast<uint64_t>(heads);
  return std::vector{TensorType{x.dtype, {x.shape[0], count, x.shape[1], x.shape[2].size / count}}};
}

template <class Number>
Outputs<Number> evaluate(const Node& node, std::span<const Value<Number>> inputs) {
  const Value<Number>& x = inputs[0];
  const size_t batch = x.shape[0], tokens = x.shape[1], heads = int_attribute(node, "heads");
  const size_t size = x.shape[2] / heads;
  Value<Number> y{{batch, heads, tokens, size}, {}};
  y.data.reserve(x.data.size());
  for (size_t b = 0; b < batch; ++b)
    for (size_t h = 0; h < heads; ++h)
      for (size_t t = 0; t < tokens; ++t) {
        const auto part = x.data.begin() + ((b * tokens + t) * heads + h) * size;
        y.data.insert(y.data.end(), part, part + size);
      }
  return outputs(std::move(y));
}

}  // namespace

const OpRow kSplitHeads{"split_heads",  1, 1, {{"heads", AttributeKind::integer}}, infer, evaluate<double>,
                        evaluate<float>};

}  // namespace tandem
