#include "contract/ops/attention.h"

#include <algorithm>
#include <limits>

#include "contract/ops/op.h"

namespace tandem {
namespace {

constexpr int64_t kFarthestDiagonal = 1 << 20;

Status check_form(const Node& node) {
  if (find_attribute(node, "diagonal")) {
    const int64_t diagonal = int_attribute(node, "diagonal");
    if (find_attribute(node, "causal") && !bool_attribute(node, "causal"))
      return invalid("attention_c7", "diagonal is {} though causal is false", diagonal);
    if (diagonal < -kFarthestDiagonal || diagonal > kFarthestDiagonal)
      return invalid("attention_c7", "diagonal is {}, expected {} at most either way", diagonal,
                     kFarthestDiagonal);
  }
  if (!find_attribute(node, "softmax_dtype")) return {};
  const std::string& word = string_attribute(node, "softmax_dtype");
  const auto dtype = dtype_named(word);
  if (!dtype || (*dtype != DType::f32 && *dtype != DType::bf16 && *dtype != DType::f16))
    return invalid("attention_c8", "softmax_dtype is \"{}\", expected f32, bf16 or f16", word);
  return {};
}

Result<std::vector<TensorType>> infer(const Node& node, std::span<const TensorType> inputs) {
  const TensorType &q = inputs[0], &k = inputs[1], &v = inputs[2], &mask = inputs[3];
  if (!is_float_of_rank(q, 4))
    return invalid("attention_c1", "q is {}, expected a float type and [batch, heads, tokens, k]", q);
  const Dim batch = q.shape[0], heads = q.shape[1], tokens = q.shape[2], size = q.shape[3];
  if (k.rank() != 4 || k != TensorType{q.dtype, {batch, k.shape[1], k.shape[2], size}})
    return invalid("attention_c2", "k is {}, expected [batch, kv_heads, keys, k] like q, {}", k, q);
  const Dim kv_heads = k.shape[1], keys = k.shape[2];
  if (v.rank() != 4 || v != TensorType{q.dtype, {batch, kv_heads, keys, v.shape[3]}})
    return invalid("attention_c3", "v is {}, expected [batch, kv_heads, keys, v] like k, {}", v, k);
  if (!heads.fixed() || !kv_heads.fixed() || kv_heads.size == 0 || heads.size % kv_heads.size != 0)
    return invalid("attention_c4", "{} query heads do not share {} kv heads", to_string(heads),
                   to_string(kv_heads));
  if (mask != i32({batch, keys}))
    return invalid("attention_c5", "attention_mask is {}, expected {}", mask, i32({batch, keys}));
  if (tokens.fixed() && keys.fixed() && keys.size < tokens.size)
    return invalid("attention_c9", "there are {} keys for {} queries", keys.size, tokens.size);
  const double scale = float_attribute(node, "scale");
  if (scale <= 0) return invalid("attention_c6", "scale is {}, expected a number above 0", scale);
  TANDEM_CHECK(check_form(node));
  return std::vector{TensorType{q.dtype, {batch, heads, tokens, v.shape[3]}}};
}

/// How many keys, from the first on, the query of key `t` may see.
size_t seen_keys(const AttentionForm& form, size_t t, size_t keys) {
  if (!form.causal) return keys;
  const int64_t end = static_cast<int64_t>(t) + form.diagonal + 1;
  return static_cast<size_t>(std::clamp<int64_t>(end, 0, static_cast<int64_t>(keys)));
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
  const size_t kv_heads = k.shape[1], keys = k.shape[2], v_size = v.shape[3];
  if (keys < tokens) return invalid("attention_c9", "there are {} keys for {} queries", keys, tokens);
  if (mask.shape != Shape{batch, keys} || v.shape[2] != keys)
    return invalid("attention_c9", "there are {} keys, {} values and a mask {}", keys, v.shape[2],
                   to_string(mask.shape));
  const Number scale = static_cast<Number>(float_attribute(node, "scale"));
  const AttentionForm form = attention_form(node);
  const auto rounded = [&](Number x) {
    return form.softmax_dtype ? always_round_to(*form.softmax_dtype, x) : x;
  };
  Value<Number> y{{batch, heads, tokens, v_size}, {}};
  y.data.reserve(batch * heads * tokens * v_size);
  for (size_t b = 0; b < batch; ++b)
    for (size_t h = 0; h < heads; ++h) {
      const size_t kv_head = b * kv_heads + h / (heads / kv_heads);
      const std::span own_keys = std::span(k.data).subspan(kv_head * keys * size, keys * size);
      const Number* values = v.data.data() + kv_head * keys * v_size;
      for (size_t t = 0; t < tokens; ++t) {
        const size_t query = ((b * heads + h) * tokens + t) * size;
        // Keys from `end` on are blocked for every mask.
        const size_t end = seen_keys(form, t + keys - tokens, keys);
        std::vector<bool> allowed(keys, false);
        for (size_t s = 0; s < end; ++s) allowed[s] = mask.data[b * keys + s] != 0;
        const auto dots =
            row_times_kernel(std::span(q.data).subspan(query, size), own_keys.first(end * size), end, true);
        std::vector<Number> scores(keys, 0);
        for (size_t s = 0; s < end; ++s) scores[s] = rounded(static_cast<Number>(dots[s]) * scale);
        auto weights = softmax(std::move(scores), allowed);
        for (Number& weight : weights) weight = rounded(weight);
        std::vector<double> sums(v_size, 0.0);
        for (size_t s = 0; s < keys; ++s) {
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

const OpRow kAttention{"attention",
                       4,
                       4,
                       {{"scale", AttributeKind::number},
                        {"causal", AttributeKind::boolean, false},
                        {"diagonal", AttributeKind::integer, false},
                        {"softmax_dtype", AttributeKind::text, false}},
                       infer,
                       evaluate<double>,
                       evaluate<float>};

AttentionForm attention_form(const Node& node) {
  AttentionForm form;
  if (find_attribute(node, "causal")) form.causal = bool_attribute(node, "causal");
  if (find_attribute(node, "diagonal")) form.diagonal = int_attribute(node, "diagonal");
  if (find_attribute(node, "softmax_dtype"))
    form.softmax_dtype = dtype_named(string_attribute(node, "softmax_dtype"));
  return form;
}

}  // namespace tandem
