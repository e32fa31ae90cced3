#include "contract/ops/cached_attention.h"

#include "contract/ops/append.h"
#include "contract/ops/attention.h"
#include "contract/ops/op.h"

namespace tandem {
namespace {

/// past and one token of it, both [batch, kv_heads, .., size].
bool are_cache_and_row(const TensorType& past, const TensorType& row) {
  if (past.rank() != 4 || row.rank() != 4) return false;
  TensorType one = past;
  one.shape[2] = Dim(1);
  return one == row;
}

Result<std::vector<TensorType>> infer(const Node& node, std::span<const TensorType> inputs) {
  const TensorType &q = inputs[0], &past_k = inputs[1], &past_v = inputs[2], &k = inputs[3], &v = inputs[4];
  if (!is_float_of_rank(q, 4) || q.shape[2] != Dim(1))
    return invalid("cached_attention_c1", "q is {}, expected a float type and [batch, heads, 1, k]", q);
  const Dim batch = q.shape[0], heads = q.shape[1];
  if (!are_cache_and_row(past_k, k) || past_k.dtype != q.dtype || past_k.shape[0] != batch ||
      past_k.shape[3] != q.shape[3])
    return invalid("cached_attention_c2", "past_k is {} and k is {}, expected a cache and a row for q, {}",
                   past_k, k, q);
  const Dim kv_heads = past_k.shape[1], past = past_k.shape[2];
  if (!are_cache_and_row(past_v, v) ||
      past_v != TensorType{q.dtype, {batch, kv_heads, past, past_v.shape[3]}})
    return invalid("cached_attention_c3", "past_v is {} and v is {}, expected a cache and a row like {}",
                   past_v, v, past_k);
  if (!heads.fixed() || !kv_heads.fixed() || kv_heads.size == 0 || heads.size % kv_heads.size != 0)
    return invalid("cached_attention_c4", "{} query heads do not share {} kv heads", to_string(heads),
                   to_string(kv_heads));
  if (inputs[5] != i32({batch, past}))
    return invalid("cached_attention_c5", "attention_mask is {}, expected {}", inputs[5], i32({batch, past}));
  const double scale = float_attribute(node, "scale");
  if (scale <= 0) return invalid("cached_attention_c6", "scale is {}, expected a number above 0", scale);
  return std::vector{TensorType{q.dtype, {batch, heads, Dim(1), past_v.shape[3]}}};
}

template <class Number>
Outputs<Number> run(const OpRow& op, const Node& node, std::span<const Value<Number>> inputs) {
  if constexpr (std::is_same_v<Number, double>)
    return op.evaluate_f64(node, inputs);
  else
    return op.evaluate_f32(node, inputs);
}

template <class Number>
Outputs<Number> evaluate(const Node& node, std::span<const Value<Number>> inputs) {
  const auto joined = [&](const Value<Number>& past, const Value<Number>& row, int64_t axis) {
    const Node append{"append", {}, {{"axis", axis}, {"length", std::string("keys")}}, {"y"}, ""};
    return run<Number>(kAppend, append, std::vector{past, row});
  };
  const Value<Number> own{{inputs[0].shape[0], 1}, std::vector<Number>(inputs[0].shape[0], 1)};
  TANDEM_TRY(auto keys, joined(inputs[1], inputs[3], 2));
  TANDEM_TRY(auto values, joined(inputs[2], inputs[4], 2));
  TANDEM_TRY(auto mask, joined(inputs[5], own, 1));
  Node attention = node;
  attention.op = "attention";
  return run<Number>(kAttention, attention, std::vector{inputs[0], keys[0], values[0], mask[0]});
}

}  // namespace

const OpRow kCachedAttention{
    "cached_attention", 6, 6, {{"scale", AttributeKind::number}}, infer, evaluate<double>, evaluate<float>};

}  // namespace tandem
