#include "contract/ops/attention.h"

#include <algorithm>
#include <limits>

#include "contract/ops/op.h"

namespace tandem {
namespace {

Result<std::vector<TensorType>> infer(const Node& node, std::span<const TensorType> inputs) {
  const TensorType &q = inputs[0], &k = inputs[1], &v = inputs[2], &mask = inputs[3];
  if (!is_float_of_rank(q, 4))
    return invalid("attention_c1", "q is {}, expected a float type and [batch, heads, tokens, k]", q);
  const Dim batch = q.shape[0], heads = q.shape[1], tokens = q.shape[2], size = q.shape[3];
  if (k.rank() != 4 || k != TensorType{q.dtype, {batch, k.shape[1], tokens, size}})
    return invalid("attention_c2", "k is {}, expected [batch, kv_heads, tokens, k] like q, {}", k, q);
  const Dim kv_heads = k.shape[1];
  if (v.rank() != 4 || v != TensorType{q.dtype, {batch, kv_heads, tokens, v.shape[3]}})
    return invalid("attention_c3", "v is {}, expected [batch, kv_heads, tokens, v] like k, {}", v, k);
  if (!heads.fixed() || !kv_heads.fixed() || kv_heads.size == 0 || heads.size % kv_heads.size != 0)
    return invalid("attention_c4", "{} query heads do not share {} kv heads", to_string(heads),
                   to_string(kv_heads));
  if (mask != i32({batch, tokens}))
    return invalid("attention_c5", "attention_mask is {}, expected {}", mask, i32({batch, tokens}));
  const double scale = float_attribute(node, "scale");
  if (scale <= 0) return invalid("attention_c6", "scale is {}, expected a number above 0", scale);
  return std::vector{TensorType{q.dtype, {batch, heads, tokens, v.shape[3]}}};
}

/// softmax of the scores of the allowed keys, exactly 0 for the others; even if none is allowed.
template <class Number>
std::vector<Number> softmax(std::vector<Number> scores, const std::vector<bool>& allowed) {
  const size_t count = scores.size();
  if (std::find(allowed.begin(), allowed.end(), true) == allowed.end())
    return std::vector<Number>(count, Number(1) / static_cast<Number>(count));
  Number largest = std::numeric_limits<Number>::lowest();
  for (size_t s = 0; s < count; ++s)
    if (allowed[s]) largest = std::max(largest, scores[s]);
  double sum = 0;
  for (size_t s = 0; s < count; ++s) {
    scores[s] = allowed[s] ? std::exp(scores[s] - largest) : Number(0);
    sum += scores[s];
  }
  for (Number& score : scores) score = static_cast<Number>(score / sum);
  return scores;
}

template <class Number>
Outputs<Number> evaluate(const Node& node, std::span<const Value<Number>> inputs) {
  const Value<Number>&q = inputs[0], &k = inputs[1], &v = inputs[2], &mask = inputs[3];
  const size_t batch = q.shape[0], heads = q.shape[1], tokens = q.shape[2], size = q.shape[3];
  const size_t kv_heads = k.shape[1], v_size = v.shape[3];
  const Number scale = static_cast<Number>(float_attribute(node, "scale"));
  Value<Number> y{{batch, heads, tokens, v_size}, {}};
  y.data.reserve(batch * heads * tokens * v_size);
  for (size_t b = 0; b < batch; ++b)
    for (size_t h = 0; h < heads; ++h) {
      const size_t kv_head = b * kv_heads + h / (heads / kv_heads);
      const std::span keys = std::span(k.data).subspan(kv_head * tokens * size, tokens * size);
      const Number* values = v.data.data() + kv_head * tokens * v_size;
      for (size_t t = 0; t < tokens; ++t) {
        const size_t query = ((b * heads + h) * tokens + t) * size;
        std::vector<bool> allowed(tokens, false);
        for (size_t s = 0; s <= t; ++s) allowed[s] = mask.data[b * tokens + s] != 0;
        // Only keys up to t can count: later ones are blocked for every mask.
        const auto dots =
            row_times_kernel(std::span(q.data).subspan(query, size), keys.first((t + 1) * size), t + 1, true);
        std::vector<Number> scores(tokens, 0);
        for (size_t s = 0; s <= t; ++s) scores[s] = static_cast<Number>(dots[s]) * scale;
        const auto weights = softmax(std::move(scores), allowed);
        std::vector<double> sums(v_size, 0.0);
        for (size_t s = 0; s < tokens; ++s) {
          if (weights[s] == 0) continue;
          for (size_t i = 0; i < v_size; ++i)
            sums[i] += static_cast<double>(weights[s]) * values[s * v_size + i];
        }
        y.data.insert(y.data.end(), sums.begin(), sums.end());
      }
    }
  return outputs(std::move(y));
}

}  // namespace

const OpRow kAttention{"attention",    4, 4, {{"scale", AttributeKind::number}}, infer, evaluate<double>,
                       evaluate<float>};

}  // namespace tandem
