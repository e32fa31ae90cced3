#include "contract/ops/embedding.h"

#include "contract/ops/op.h"

namespace tandem {
namespace {

Result<std::vector<TensorType>> infer(const Node &, std::span<const TensorType> inputs) {
  const TensorType &ids = inputs[0], &table = inputs[1];
  if (ids.dtype != DType::i32) return invalid("embedding_c1", "ids are {}, expected i32", ids);
  if (!is_float_of_rank(table, 2))
    return invalid("embedding_c2", "table is {}, expected a float type and [vocab, hidden]", table);
  TensorType y{table.dtype, ids.shape};
  y.shape.push_back(table.shape[1]);
  return std::vector{y};
}

template <class Number>
Outputs<Number> evaluate(const Node &, std::span<const Value<Number>> inputs) {
  const Value<Number> &ids = inputs[0], &table = inputs[1];
  const size_t vocab = table.shape[0], hidden = table.shape[1];
  Value<Number> y{ids.shape, {}};
  y.shape.push_back(hidden);
  y.data.reserve(ids.data.size() * hidden);
  for (const Number id : ids.data) {
    if (!(id >= 0 && id < static_cast<Number>(vocab)))
      return invalid("embedding_c3", "id {} is not in the vocabulary of {} tokens", id, vocab);
    const auto row = table.data.begin() + static_cast<size_t>(id) * hidden;
    y.data.insert(y.data.end(), row, row + hidden);
  }
  return outputs(std::move(y));
}

}  // namespace

const OpRow kEmbedding{"embedding", 2, 2, {}, infer, evaluate<double>, evaluate<float>};

}  // namespace tandem
