#pragma once

#include "contract/ops/registry.h"

namespace tandem {

/// Which experts each token goes to, and how much each counts.
///
///   s = sigmoid(x . kernel), or softmax over experts  scores, in f32 whatever x is; by scoring_func
///   c = s + bias                                     used only to choose
///   group score = the sum of the two largest c in each of n_group contiguous groups; the best topk_group
///   groups stay, c of all others becomes -infinity
///   chosen = the top_k experts of the largest c, largest first; the lowest number first among equals
///            (or forced, where forced[..., 0] >= 0)
///   weights = s[chosen] (c[chosen] where bias_in_weights is there and true), divided by (their sum + 1e-20)
///             if norm_topk_prob, then times routed_scaling_factor
///   router_scores = c as it was before groups were dropped, whatever is forced
///
/// Outputs chosen, weights, router_scores
/// Shapes  x: [batch, tokens, hidden]    kernel: [hidden, experts] ("in_out") or [experts, hidden] ("out_in")
///         bias: [experts]    forced, chosen, weights: [batch, tokens, top_k]
///         router_scores: [batch, tokens, experts]
/// Types   x any float type; kernel, bias, weights and router_scores f32; forced and chosen i32
/// Errors  route_c1  x is not float of rank 3
///         route_c2  kernel is not an f32 matrix with `hidden` and a fixed number of experts where the layout
///         has them route_c3  bias is not f32[experts] route_c4  forced is not i32[batch, tokens, top_k]
///         route_c5  n_group does not divide the experts into groups of at least two
///         route_c6  topk_group is not 1 to n_group
///         route_c7  top_k is not 1 to the experts of topk_group groups
///         route_c8  routed_scaling_factor is not positive
///         route_c9  scoring_func is neither "sigmoid" nor "softmax", or topk_method is not "noaux_tc"
///         (unsupported) route_c10 layout is neither "in_out" nor "out_in" route_c11 (when run) a forced
///         expert does not exist
/// Source  DeepseekV3TopkRouter (transformers, modeling_deepseek_v3.py); softmax scores:
/// modeling_deepseek_v2.py. PyTorch leaves the order of the chosen open;
///         TensorFlow's top_k has the one written here
extern const OpRow kRoute;

/// How close one token's choice was: the smaller of two gaps, that between the group scores of the last group
/// kept and the first dropped, and that between the scores of the last expert chosen and the first rejected
/// within the kept groups. Infinity where nothing is dropped or rejected; 0 for a tie. A change of every
/// score by less than a quarter of it (a group score is a sum of two) changes no choice.
/// `route` is a checked node, `router_scores` a row of its output of that name.
float routing_margin(const Node& route, std::span<const float> router_scores);
double routing_margin(const Node& route, std::span<const double> router_scores);

}  // namespace tandem
