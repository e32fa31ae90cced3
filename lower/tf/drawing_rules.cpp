#include "lower/tf/drawing_rules.h"

namespace tandem {
namespace {

const Dim kRanked("ranked");

Tensor i32_scalar(FunctionBuilder& f, int32_t value) { return as_i32(f.scalar(value), {}); }
Tensor both(FunctionBuilder& f, const Tensor& x, const Tensor& y) { return logical(f, "LogicalAnd", x, y); }
Tensor either(FunctionBuilder& f, const Tensor& x, const Tensor& y) { return logical(f, "LogicalOr", x, y); }

/// How many of the most likely tokens must be known for some row, an i32 scalar.
std::string ranks_needed(FunctionBuilder& f, const Tensor& top_k, const Tensor& no_k, const Tensor& no_p,
                         const Tensor& all) {
  const Tensor without_k = select(f, no_p, f.unary("OnesLike", top_k), all);
  const Tensor need = select(f, no_k, f.binary("Minimum", without_k, all), f.binary("Minimum", top_k, all));
  return f.node("Max", {need.ref, f.constant({0, 1})},
                {attr("T", DType::i32), attr("Tidx", DType::i32), attr("keep_dims", false)}, "output");
}

/// i32[batch, 1]: the rank of the least likely token that stays. sorted: f64[batch, ranked], from the top.
Tensor last_rank(FunctionBuilder& f, const Tensor& sorted, const Tensor& best, const Tensor& within_k,
                 const Tensor& no_p, const RankRules& rules) {
  const Tensor weights = weights_of(f, sorted, best, rules.temperature);
  const Tensor left = select(f, within_k, weights, f.unary("ZerosLike", weights));
  const Tensor share = f.binary("Mul", reduced(f, "Sum", left, true), rules.top_p);
  const Tensor within_p = either(f, compare(f, "Less", cumulated(f, left, true), share), no_p);
  const Tensor within = f.cast(both(f, within_k, within_p), DType::i32);
  return f.binary("Sub", reduced(f, "Sum", within, true), i32_scalar(f, 1));
}

}  // namespace

Tensor f64_scalar(FunctionBuilder& f, double value) {
  return {f.scalar(DType::f64, value), {DType::f64, {}}};
}

Tensor ids_below(FunctionBuilder& f, const std::string& count, const Dim& axis) {
  return as_i32(f.range(f.scalar(0), count), {axis});
}

Tensor is_zero(FunctionBuilder& f, const Tensor& x) {
  return compare(f, "Equal", x, f.cast(i32_scalar(f, 0), x.type.dtype));
}

Tensor finite(FunctionBuilder& f, const Tensor& x, const std::string& message) {
  return {
      f.node("CheckNumerics", {x.ref}, {attr("T", x.type.dtype), text_attr("message", message)}, "output"),
      x.type};
}

Tensor cumulated(FunctionBuilder& f, const Tensor& x, bool exclusive) {
  return {f.node("Cumsum", {x.ref, f.scalar(-1)},
                 {attr("T", x.type.dtype), attr("Tidx", DType::i32), attr("exclusive", exclusive),
                  attr("reverse", false)},
                 "out"),
          x.type};
}

Tensor with_penalty(FunctionBuilder& f, const Tensor& logits, const Tensor& seen, const Tensor& penalty) {
  const Tensor wide = f.cast(logits, DType::f64);
  const Tensor punished = select(f, compare(f, "Greater", wide, f64_scalar(f, 0)),
                                 f.binary("RealDiv", wide, penalty), f.binary("Mul", wide, penalty));
  return select(f, seen, punished, wide);
}

Tensor weights_of(FunctionBuilder& f, const Tensor& x, const Tensor& best, const Tensor& temperature) {
  const Tensor divisor = select(f, is_zero(f, temperature), f64_scalar(f, 1), temperature);
  return f.unary("Exp", f.binary("RealDiv", f.binary("Sub", x, best), divisor));
}

Tensor kept_by_rank(FunctionBuilder& f, const Tensor& x, const Tensor& best, const RankRules& rules) {
  const Dim batch = x.type.shape[0], vocab = x.type.shape[1];
  const Tensor all = as_i32(f.axis(vocab), {});
  const Tensor no_k = is_zero(f, rules.top_k),
               no_p = compare(f, "GreaterEqual", rules.top_p, f64_scalar(f, 1));
  const std::string count = ranks_needed(f, rules.top_k, no_k, no_p, all);
  const std::string values =
      f.node("TopKV2", {x.ref, count}, {attr("T", DType::f64), attr("sorted", true)}, "values");
  const Tensor sorted{values, {DType::f64, {batch, kRanked}}};
  const Tensor order = as_i32(FunctionBuilder::nth(values, 0, "indices"), {batch, kRanked});

  Tensor within_k = either(f, no_k, compare(f, "Greater", rules.top_k, ids_below(f, count, kRanked)));
  within_k.type.shape = {batch, kRanked};
  const Tensor last = last_rank(f, sorted, best, within_k, no_p, rules);
  // What ranks above the last one, or is it: by logit, then by id.
  const Tensor edge = f.gather(sorted, last, 1, 1), edge_id = f.gather(order, last, 1, 1);
  const Tensor first = compare(f, "GreaterEqual", edge_id, ids_below(f, f.axis(vocab), vocab));
  const Tensor kept = either(f, compare(f, "Greater", x, edge), both(f, compare(f, "Equal", x, edge), first));
  return either(f, kept, both(f, no_k, no_p));
}

}  // namespace tandem
