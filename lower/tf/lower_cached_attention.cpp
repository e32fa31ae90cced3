// Attention of one token on a cache that stays where it is: two products a side, joined in the softmax.

#include "lower/tf/attention.h"

namespace tandem {

std::vector<Tensor> lower_cached_attention(FunctionBuilder& f, const Node& node,
                                           std::span<const TfOperand> inputs, LowerContext&) {
  const Tensor q = f.use(inputs[0]), past_k = f.use(inputs[1]), past_v = f.use(inputs[2]),
               k = f.use(inputs[3]), v = f.use(inputs[4]), mask = f.use(inputs[5]);
  const DType dtype = q.type.dtype;
  const Dim batch = q.type.shape[0], heads = q.type.shape[1], kv_heads = k.type.shape[1],
            past = past_k.type.shape[2], group(heads.size / kv_heads.size);
  const Tensor scaled = f.binary("Mul", q, {f.scalar(dtype, float_attribute(node, "scale")), {}});
  const Tensor grouped = f.reshape(scaled, {batch, kv_heads, group, q.type.shape[3]});
  const Tensor scores = f.batch_matmul(grouped, past_k, true);  // [batch, kv_heads, group, past]
  const std::string real = f.node("Greater", {mask.ref, f.scalar(0)}, {attr("T", DType::i32)}, "z");
  const Tensor allowed = f.reshape({real, {DType::boolean, mask.type.shape}}, {batch, Dim(1), Dim(1), past});
  const Tensor seen{f.node("SelectV2", {allowed.ref, scores.ref, f.scalar(dtype, lowest(dtype))},
                           {attr("T", dtype)}, "output"),
                    scores.type};
  const Tensor own = f.batch_matmul(grouped, k, true);  // [batch, kv_heads, group, 1]
  const auto widened = [&](const Tensor& x) { return f.cast(x, DType::f32); };
  const Tensor all{f.node("ConcatV2", {widened(seen).ref, widened(own).ref, f.scalar(-1)},
                          {attr("T", DType::f32), attr("N", int64_t{2}), attr("Tidx", DType::i32)}, "output"),
                   {DType::f32, {batch, kv_heads, group, Dim("past_and_own")}}};
  const Tensor soft{f.node("Softmax", {all.ref}, {attr("T", DType::f32)}, "softmax"), all.type};
  const Tensor weights = f.cast(soft, dtype);
  // The last lane is the token's own, all before it are the cache's.
  const auto lanes = [&](int32_t begin, int64_t begin_mask, int32_t end, int64_t end_mask, const Dim& size) {
    return Tensor{f.node("StridedSlice",
                         {weights.ref, f.constant({0, begin}), f.constant({0, end}), f.constant({1, 1})},
                         {attr("T", dtype), attr("Index", DType::i32), attr("ellipsis_mask", int64_t{1}),
                          attr("begin_mask", begin_mask), attr("end_mask", end_mask)},
                         "output"),
                  {dtype, {batch, kv_heads, group, size}}};
  };
  const Tensor from_cache = f.batch_matmul(lanes(0, 2, -1, 0, past), past_v, false);
  const Tensor from_own = f.batch_matmul(lanes(-1, 0, 0, 2, Dim(1)), v, false);
  const Tensor mixed = f.binary("AddV2", from_cache, from_own);
  return {f.reshape(mixed, {batch, heads, Dim(1), v.type.shape[3]})};
}

}  // namespace tandem
