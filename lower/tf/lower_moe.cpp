// Mixture of experts: who is chosen, and the products of the chosen experts alone.

#include <limits>

#include "lower/tf/activation.h"
#include "lower/tf/experts.h"

namespace tandem {
namespace {

struct TopK {
  Tensor values, indices;
};
TopK top_k(FunctionBuilder& f, const Tensor& x, uint64_t k) {
  const std::string ref = f.node(
      "TopKV2", {x.ref, f.scalar(static_cast<int32_t>(k))},
      {attr("T", x.type.dtype), attr("sorted", true), attr("Tk", DType::i32), attr("index_type", DType::i32)},
      "values");
  TensorType type = x.type;
  type.shape.back() = Dim(k);
  return {{ref, type}, {FunctionBuilder::nth(ref, 0, "indices"), {DType::i32, type.shape}}};
}

Tensor sum_last(FunctionBuilder& f, const Tensor& x, bool keep) {
  TensorType type = x.type;
  type.shape.back() = Dim(1);
  if (!keep) type.shape.pop_back();
  return {f.node("Sum", {x.ref, f.constant({-1})},
                 {attr("T", x.type.dtype), attr("Tidx", DType::i32), attr("keep_dims", keep)}, "output"),
          type};
}

/// Scores [rows, experts] with every expert of a dropped group at minus infinity. A group counts by its two
/// best.
Tensor keep_best_groups(FunctionBuilder& f, const Tensor& choice, uint64_t groups, uint64_t kept) {
  const uint64_t experts = choice.type.shape.back().size;
  const std::string dims = f.shape({std::nullopt, Dim(groups), Dim(experts / groups)});
  const Tensor grouped{
      f.node("Reshape", {choice.ref, dims}, {attr("T", DType::f32), attr("Tshape", DType::i32)}, "output"),
      {DType::f32, {Dim("rows"), Dim(groups), Dim(experts / groups)}}};
  const Tensor group_scores = sum_last(f, top_k(f, grouped, 2).values, false);
  const Tensor best = top_k(f, group_scores, kept).indices;
  const std::string ones =
      f.node("OneHot", {best.ref, f.scalar(static_cast<int32_t>(groups)), f.scalar(1), f.scalar(0)},
             {attr("T", DType::i32), attr("TI", DType::i32), attr("axis", int64_t{-1})}, "output");
  const std::string counts =
      f.node("Sum", {ones, f.constant({-2})},
             {attr("T", DType::i32), attr("Tidx", DType::i32), attr("keep_dims", false)}, "output");
  const std::string kept_groups = f.node("Greater", {counts, f.scalar(0)}, {attr("T", DType::i32)}, "z");
  const Tensor mask = f.expand_dims({kept_groups, {DType::boolean, {Dim("rows"), Dim(groups)}}}, -1);
  const std::string masked = f.node(
      "SelectV2", {mask.ref, grouped.ref, f.scalar(DType::f32, -std::numeric_limits<double>::infinity())},
      {attr("T", DType::f32)}, "output");
  return {f.node("Reshape", {masked, f.constant({-1, static_cast<int32_t>(experts)})},
                 {attr("T", DType::f32), attr("Tshape", DType::i32)}, "output"),
          choice.type};
}

/// The kernels of all chunks as one tensor an expert. Unpack aliases the variable's buffer; a stored type
/// that differs is cast one expert at a time, so the stack is never copied.
std::vector<Tensor> unpack(FunctionBuilder& f, std::span<const TfOperand> chunks) {
  std::vector<Tensor> kernels;
  for (const TfOperand& chunk : chunks) {
    const Tensor stack = f.read(chunk);
    const uint64_t count = stack.type.shape[0].size;
    const std::string ref = f.node(
        "Unpack", {stack.ref},
        {attr("T", stack.type.dtype), attr("num", static_cast<int64_t>(count)), attr("axis", int64_t{0})},
        "output");
    for (uint64_t i = 0; i < count; ++i) {
      const Tensor kernel{FunctionBuilder::nth(ref, static_cast<int>(i)),
                          {stack.type.dtype, {stack.type.shape.begin() + 1, stack.type.shape.end()}}};
      kernels.push_back(f.cast(kernel, chunk.tensor.type.dtype));
    }
  }
  return kernels;
}

}  // namespace

std::vector<Tensor> lower_route(FunctionBuilder& f, const Node& node, std::span<const TfOperand> inputs,
                                LowerContext&) {
  const Tensor x = f.cast(f.flatten_rows(f.use(inputs[0])), DType::f32);
  const auto k = static_cast<uint64_t>(int_attribute(node, "top_k"));
  const auto groups = static_cast<uint64_t>(int_attribute(node, "n_group")),
             kept = static_cast<uint64_t>(int_attribute(node, "topk_group"));
  const Tensor logits = f.matmul(x, f.use(inputs[1]), string_attribute(node, "layout") == "out_in");
  const Tensor scores =
      string_attribute(node, "scoring_func") == "sigmoid"
          ? f.unary("Sigmoid", logits)
          : Tensor{f.node("Softmax", {logits.ref}, {attr("T", DType::f32)}, "softmax"), logits.type};
  const Tensor router_scores = f.binary("AddV2", scores, f.use(inputs[2]));
  const Tensor choice = kept < groups ? keep_best_groups(f, router_scores, groups, kept) : router_scores;
  const Tensor own = top_k(f, choice, k).indices;
  const Tensor forced = f.flatten_rows(f.use(inputs[3]));
  const Tensor first = f.slice_last(forced, 0, 1);
  const std::string is_forced =
      f.node("GreaterEqual", {first.ref, f.scalar(0)}, {attr("T", DType::i32)}, "z");
  const Tensor chosen{f.node("SelectV2", {is_forced, forced.ref, own.ref}, {attr("T", DType::i32)}, "output"),
                      own.type};
  const bool bias_in_weights =
      find_attribute(node, "bias_in_weights") && bool_attribute(node, "bias_in_weights");
  Tensor weights = f.gather(bias_in_weights ? router_scores : scores, chosen, 1, 1);
  if (bool_attribute(node, "norm_topk_prob")) {
    const Tensor total = f.binary("AddV2", sum_last(f, weights, true), {f.scalar(DType::f32, 1e-20), {}});
    weights = f.binary("RealDiv", weights, total);
  }
  weights =
      f.binary("Mul", weights, {f.scalar(DType::f32, float_attribute(node, "routed_scaling_factor")), {}});
  const TensorType& in = inputs[0].tensor.type;
  const std::vector<Dim> dims{in.shape[0], in.shape[1], Dim(k)};
  return {f.reshape(chosen, dims), f.reshape(weights, dims),
          f.reshape(router_scores, {in.shape[0], in.shape[1], router_scores.type.shape.back()})};
}

std::vector<Tensor> lower_experts(FunctionBuilder& f, const Node& node, std::span<const TfOperand> inputs,
                                  LowerContext& context) {
  if (inputs[0].tensor.type.shape[1].fixed()) return {experts_by_token(f, node, inputs, context)};
  const auto chunks = static_cast<size_t>(int_attribute(node, "chunks"));
  const bool out_in = string_attribute(node, "layout") == "out_in";
  const std::string& hidden_act = string_attribute(node, "hidden_act");
  const Tensor x = f.use(inputs[0]);
  const Tensor rows = f.flatten_rows(x);
  const uint64_t k = inputs[1].tensor.type.shape.back().size, hidden = x.type.shape.back().size;
  const std::vector<Tensor> gate = unpack(f, inputs.subspan(3, chunks));
  const std::vector<Tensor> up = unpack(f, inputs.subspan(3 + chunks, chunks));
  const std::vector<Tensor> down = unpack(f, inputs.subspan(3 + 2 * chunks, chunks));

  // Slot s = token * k + j is the j-th choice of a token. Slots are parted by expert, computed, weighted, and
  // summed by token. (Stitching them back in order would do too, but XLA compiles no stitch whose indices are
  // computed.)
  const auto flat = [&](const Tensor& t) {
    return f.node("Reshape", {t.ref, f.constant({-1})}, {attr("T", t.type.dtype), attr("Tshape", DType::i32)},
                  "output");
  };
  const std::string chosen = flat(f.use(inputs[1]));
  const std::string count =
      f.node("Size", {chosen}, {attr("T", DType::i32), attr("out_type", DType::i32)}, "output");
  const std::string slots = f.range(f.scalar(0), count);
  const auto experts = static_cast<int64_t>(gate.size());
  const std::string parts = f.node("DynamicPartition", {slots, chosen},
                                   {attr("T", DType::i32), attr("num_partitions", experts)}, "outputs");
  const auto token_of = [&](const std::string& slot) {
    return Tensor{f.node("FloorDiv", {slot, f.scalar(static_cast<int32_t>(k))}, {attr("T", DType::i32)}, "z"),
                  {DType::i32, {Dim("slots")}}};
  };
  std::vector<std::string> order, products;
  for (int64_t e = 0; e < experts; ++e) {
    const auto i = static_cast<size_t>(e);
    order.push_back(FunctionBuilder::nth(parts, static_cast<int>(e)));
    const Tensor mine = f.gather(rows, token_of(order.back()), 0);
    const Tensor gated = f.matmul(mine, gate[i], out_in);
    const Tensor inner = gate_few_rows(f, hidden_act, gated, f.matmul(mine, up[i], out_in));
    products.push_back(f.matmul(inner, down[i], out_in).ref);
  }
  const std::string slot = f.join(order, DType::i32);
  const DType dtype = x.type.dtype;
  const TensorType each{dtype, {Dim("slots"), Dim(hidden)}};
  const Tensor outputs{f.join(products, dtype), each};
  const Tensor weight{flat(f.cast(f.use(inputs[2]), dtype)), {dtype, {Dim("slots")}}};
  const Tensor weighted =
      f.binary("Mul", outputs, f.expand_dims(f.gather(weight, {slot, {DType::i32, {Dim("slots")}}}, 0), -1));
  // ScatterNd adds rows of one token up; unlike UnsortedSegmentSum's, its gradient is one gather.
  const std::string dims =
      f.node("Pack",
             {f.node("Size", {flat(f.slice_last(f.use(inputs[1]), 0, 1))},
                     {attr("T", DType::i32), attr("out_type", DType::i32)}, "output"),
              f.scalar(static_cast<int32_t>(hidden))},
             {attr("T", DType::i32), attr("N", int64_t{2}), attr("axis", int64_t{0})}, "output");
  const Tensor total{f.node("ScatterNd", {f.expand_dims(token_of(slot), -1).ref, weighted.ref, dims},
                            {attr("T", dtype), attr("Tindices", DType::i32)}, "output"),
                     {dtype, {Dim("rows"), Dim(hidden)}}};
  return {f.reshape(total, x.type.shape)};
}

}  // namespace tandem
