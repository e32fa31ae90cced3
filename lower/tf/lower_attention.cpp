// Attention: for all queries at once (differentiable by Python's tape), or for a chunk of queries at a time
// in a While loop.

#include <limits>

#include "contract/ops/attention.h"
#include "lower/tf/attention.h"
#include "lower/tf/list_loop.h"

namespace tandem {
namespace {

struct Shapes {
  Dim batch, kv_heads, group, queries, keys, key_size, value_size;
  AttentionForm form;

  /// Every query sees every key that is real: it is the last one, or all are seen anyway.
  bool sees_all() const { return !form.causal || (queries == Dim(1) && form.diagonal == 0); }
};

/// Softmax(q k^T) v for queries [batch, kv_heads, group, queries, key_size] that are already scaled.
/// `allowed` is a boolean that broadcasts to [batch, kv_heads, group, queries, keys].
Tensor attend(FunctionBuilder& f, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& allowed,
              const Shapes& s, const Dim& queries) {
  const DType dtype = q.type.dtype;
  const Dim rows("attention_rows");
  const auto fold = [&](const Tensor& x,
                        const Dim& last) {  // the group axis joins the queries, so that keys are not repeated
    const std::string dims = f.shape({s.batch, s.kv_heads, std::nullopt, last});
    return Tensor{
        f.node("Reshape", {x.ref, dims}, {attr("T", x.type.dtype), attr("Tshape", DType::i32)}, "output"),
        {x.type.dtype, {s.batch, s.kv_heads, rows, last}}};
  };
  Tensor scores = f.batch_matmul(fold(q, s.key_size), k, true);
  scores = f.reshape(scores, {s.batch, s.kv_heads, s.group, queries, s.keys});
  const auto rounded = [&](const Tensor& x) {  // to the softmax's own type, and back
    return s.form.softmax_dtype ? f.cast(f.cast(x, *s.form.softmax_dtype), x.type.dtype) : x;
  };
  scores = rounded(scores);
  const Tensor blocked{f.node("SelectV2", {allowed.ref, scores.ref, f.scalar(dtype, lowest(dtype))},
                              {attr("T", dtype)}, "output"),
                       scores.type};
  const Tensor wide = f.cast(blocked, DType::f32);
  const Tensor soft{f.node("Softmax", {wide.ref}, {attr("T", DType::f32)}, "softmax"), wide.type};
  const Tensor mixed = f.batch_matmul(fold(f.cast(rounded(soft), dtype), s.keys), v, false);
  return f.reshape(mixed, {s.batch, s.kv_heads, s.group, queries, s.value_size});
}

/// [batch, 1, 1, 1, keys]: keys that are real. [queries, keys]: keys not after their query. Both true. The
/// mask is refused where it has not one entry a key.
Tensor allowed_keys(FunctionBuilder& f, const Tensor& mask, const std::string& query_index, const Shapes& s) {
  const Dim& keys = s.keys;
  const Tensor real{f.node("Greater", {mask.ref, f.scalar(0)}, {attr("T", DType::i32)}, "z"),
                    {DType::boolean, mask.type.shape}};
  const Tensor wide{f.node("Reshape", {real.ref, f.shape({s.batch, Dim(1), Dim(1), Dim(1), keys})},
                           {attr("T", DType::boolean), attr("Tshape", DType::i32)}, "output"),
                    {DType::boolean, {mask.type.shape[0], Dim(1), Dim(1), Dim(1), keys}}};
  if (s.sees_all()) return wide;
  const std::string last_key =
      s.form.diagonal == 0 ? query_index
                           : f.node("AddV2", {query_index, f.scalar(static_cast<int32_t>(s.form.diagonal))},
                                    {attr("T", DType::i32)}, "z");
  const Tensor rows = f.expand_dims({last_key, {DType::i32, {Dim("rows")}}}, -1);
  const std::string columns = f.range(f.scalar(0), f.axis(keys));
  const std::string past = f.node("LessEqual", {columns, rows.ref}, {attr("T", DType::i32)}, "z");
  return {f.node("LogicalAnd", {wide.ref, past}, {}, "z"), {DType::boolean, {}}};
}

std::string one_axis(FunctionBuilder& f, const std::string& op, const std::string& x, const std::string& y) {
  return f.node(op, {x, y}, {attr("T", DType::i32)}, "z");
}

/// One chunk: its queries are taken out and attended.
Tensor attend_chunk(FunctionBuilder& f, const std::vector<Tensor>& in, const Shapes& s, const Dim& chunk) {
  const Tensor queries = f.gather(in[0], {"counter", {DType::i32, {}}}, 0);
  const std::string size = f.axis(chunk);
  const std::string begin = one_axis(f, "Mul", "counter", size);
  const std::string index =
      one_axis(f, "AddV2", f.range(f.scalar(0), size), begin);  // XLA wants a range it can see
  return attend(f, queries, in[1], in[2], allowed_keys(f, in[3], index, s), s, chunk);
}

Tensor attend_in_chunks(FunctionBuilder& f, const Tensor& q, const Tensor& k, const Tensor& v,
                        const Tensor& mask, const Shapes& s, LowerContext& context) {
  const DType dtype = q.type.dtype;
  const std::string tokens = f.axis(s.keys);
  const std::string limit = f.scalar(static_cast<int32_t>(context.query_chunk));
  const std::string size = one_axis(f, "Maximum", one_axis(f, "Minimum", tokens, limit), f.scalar(1));
  const Dim chunk("chunk"), chunks("chunks");
  f.name_axis("chunk", size);
  const std::string rounded = one_axis(f, "Sub", one_axis(f, "AddV2", tokens, size), f.scalar(1));
  const std::string count = f.node("FloorDiv", {rounded, size}, {attr("T", DType::i32)}, "z");
  f.name_axis("chunks", count);
  // Queries padded to whole chunks, [chunks, batch, kv_heads, group, chunk, key_size].
  const std::string padding = one_axis(f, "Sub", one_axis(f, "Mul", count, size), tokens);
  const std::string before = f.constant({0, 0, 0, 0, 0});
  const auto list = [&](const std::vector<std::string>& scalars) {
    return f.node(
        "Pack", scalars,
        {attr("T", DType::i32), attr("N", static_cast<int64_t>(scalars.size())), attr("axis", int64_t{0})},
        "output");
  };
  const std::string zero = f.scalar(0);
  const std::string after = list({zero, zero, zero, padding, zero});
  const std::string paddings =
      f.node("Pack", {before, after},
             {attr("T", DType::i32), attr("N", int64_t{2}), attr("axis", int64_t{1})}, "output");
  const Tensor padded{
      f.node("Pad", {q.ref, paddings}, {attr("T", dtype), attr("Tpaddings", DType::i32)}, "output"), q.type};
  const Tensor cut = f.reshape(padded, {s.batch, s.kv_heads, s.group, chunks, chunk, s.key_size});
  const Tensor queries = f.transpose(cut, {3, 0, 1, 2, 4, 5});
  const LoopInputs in{{{"queries", queries}, {"keys", k}, {"values", v}, {"attention_mask", mask}}, {}};
  const TensorType item{dtype, {s.batch, s.kv_heads, s.group, chunk, s.value_size}};
  const Tensor stacked = list_loop(f, context, "attention_loop", chunks, item, in,
                                   [&](FunctionBuilder& b, const std::vector<Tensor>& values, const auto&) {
                                     return attend_chunk(b, values, s, chunk);
                                   });
  const Tensor ordered = f.transpose(stacked, {1, 2, 3, 0, 4, 5});
  const std::string joined =
      f.node("Reshape", {ordered.ref, f.shape({s.batch, s.kv_heads, s.group, std::nullopt, s.value_size})},
             {attr("T", dtype), attr("Tshape", DType::i32)}, "output");
  const std::string end = list({zero, zero, zero, tokens, zero});
  const std::string real = f.node("StridedSlice", {joined, before, end, f.constant({1, 1, 1, 1, 1})},
                                  {attr("T", dtype), attr("Index", DType::i32),
                                   attr("begin_mask", int64_t{31}), attr("end_mask", int64_t{0b10111})},
                                  "output");
  return {real, {dtype, {s.batch, s.kv_heads, s.group, s.keys, s.value_size}}};
}

/// The keys' numbers of the queries: those of the last keys.
std::string own_keys(FunctionBuilder& f, const Shapes& s) {
  const std::string numbers = f.range(f.scalar(0), f.axis(s.queries));
  if (s.queries == s.keys) return numbers;
  return one_axis(f, "AddV2", numbers, one_axis(f, "Sub", f.axis(s.keys), f.axis(s.queries)));
}

}  // namespace

double lowest(DType dtype) {
  return dtype == DType::f16    ? -65504.0
         : dtype == DType::bf16 ? -3.3895313892515355e38
                                : -std::numeric_limits<float>::max();
}

std::vector<Tensor> lower_attention(FunctionBuilder& f, const Node& node, std::span<const TfOperand> inputs,
                                    LowerContext& context) {
  const Tensor q = f.use(inputs[0]), k = f.use(inputs[1]), v = f.use(inputs[2]), mask = f.use(inputs[3]);
  const uint64_t heads = q.type.shape[1].size, kv_heads = k.type.shape[1].size;
  const Shapes s{q.type.shape[0], Dim(kv_heads),   Dim(heads / kv_heads), q.type.shape[2],
                 k.type.shape[2], q.type.shape[3], v.type.shape[3],       attention_form(node)};
  const Tensor scaled = f.binary("Mul", q, {f.scalar(q.type.dtype, float_attribute(node, "scale")), {}});
  const Tensor grouped = f.reshape(scaled, {s.batch, s.kv_heads, s.group, s.queries, s.key_size});
  const auto at_once = [&] {
    const std::string numbers = s.sees_all() ? "" : own_keys(f, s);
    return attend(f, grouped, k, v, allowed_keys(f, mask, numbers, s), s, s.queries);
  };
  const bool in_chunks = context.query_chunk > 0 && s.queries == s.keys;
  const Tensor mixed = in_chunks ? attend_in_chunks(f, grouped, k, v, mask, s, context) : at_once();
  return {f.reshape(mixed, {s.batch, Dim(heads), s.queries, s.value_size})};
}

}  // namespace tandem
