#pragma once
// Rules of docs/sampling.md as nodes, for all rows of a batch. x: f64[batch, vocab], logits after the
// penalty; a rule's numbers are columns [batch, 1]: f64, top_k i32.

#include "lower/tf/step_functions.h"

namespace tandem {

Tensor f64_scalar(FunctionBuilder& f, double value);
/// Ids 0 to count - 1 (count: an i32 scalar), [axis].
Tensor ids_below(FunctionBuilder& f, const std::string& count, const Dim& axis);
Tensor is_zero(FunctionBuilder& f, const Tensor& x);
/// x, and InvalidArgument with the message where it is not finite.
Tensor finite(FunctionBuilder& f, const Tensor& x, const std::string& message);
/// Sums along the last axis up to each place, with what stands there or without it.
Tensor cumulated(FunctionBuilder& f, const Tensor& x, bool exclusive);

/// Logits f32[batch, vocab] to x. seen: bool[batch, vocab].
Tensor with_penalty(FunctionBuilder& f, const Tensor& logits, const Tensor& seen, const Tensor& penalty);
/// exp((x - best) / temperature), x of any shape [batch, n]; with temperature 0 as with 1.
Tensor weights_of(FunctionBuilder& f, const Tensor& x, const Tensor& best, const Tensor& temperature);

/// bool[batch, vocab]: what top_k and top_p leave, in that order. Sorted are only as many as some row needs.
struct RankRules {
  Tensor temperature, top_k, top_p;
};
Tensor kept_by_rank(FunctionBuilder& f, const Tensor& x, const Tensor& best, const RankRules& rules);

}  // namespace tandem
