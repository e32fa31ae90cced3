#include "contract/ops/route.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "contract/ops/op.h"

namespace tandem {
namespace {

Result<std::vector<TensorType>> infer(const Node& node, std::span<const TensorType> inputs) {
  const TensorType &x = inputs[0], &kernel = inputs[1], &bias = inputs[2], &forced = inputs[3];
  TANDEM_TRY(const bool out_in, is_out_in(node, "route_c10"));
  if (!is_float_of_rank(x, 3))
    return invalid("route_c1", "x is {}, expected a float type and [batch, tokens, hidden]", x);
  if (kernel.dtype != DType::f32 || kernel.rank() != 2 || kernel.shape[out_in ? 1 : 0] != x.shape[2] ||
      !kernel.shape[out_in ? 0 : 1].fixed())
    return invalid("route_c2", "kernel is {}, expected f32 {} with hidden = {}", kernel,
                   out_in ? "[experts, hidden]" : "[hidden, experts]", to_string(x.shape[2]));
  const Dim experts = kernel.shape[out_in ? 0 : 1];
  if (bias != f32({experts})) return invalid("route_c3", "bias is {}, expected {}", bias, f32({experts}));

  const int64_t count = static_cast<int64_t>(experts.size), groups = int_attribute(node, "n_group");
  const int64_t topk_group = int_attribute(node, "topk_group"), top_k = int_attribute(node, "top_k");
  if (groups < 1 || count % groups != 0 || count / groups < 2)
    return invalid("route_c5", "{} experts do not form {} groups of at least two", count, groups);
  if (topk_group < 1 || topk_group > groups)
    return invalid("route_c6", "topk_group is {}, expected 1 to n_group = {}", topk_group, groups);
  if (top_k < 1 || top_k > count / groups * topk_group)
    return invalid("route_c7", "top_k is {}, expected 1 to the {} experts of {} groups", top_k,
                   count / groups * topk_group, topk_group);
  const double factor = float_attribute(node, "routed_scaling_factor");
  if (factor <= 0)
    return invalid("route_c8", "routed_scaling_factor is {}, expected a number above 0", factor);
  const std::string &scoring = string_attribute(node, "scoring_func"),
                    &method = string_attribute(node, "topk_method");
  if ((scoring != "sigmoid" && scoring != "softmax") || method != "noaux_tc")
    return unsupported(
        "route_c9",
        "scoring_func \"{}\" with topk_method \"{}\", known are \"sigmoid\" and \"softmax\" with "
        "\"noaux_tc\"",
        scoring, method);
  const TensorType chosen = i32({x.shape[0], x.shape[1], static_cast<uint64_t>(top_k)});
  if (forced != chosen) return invalid("route_c4", "forced is {}, expected {}", forced, chosen);
  return std::vector{chosen, TensorType{DType::f32, chosen.shape}, f32({x.shape[0], x.shape[1], experts})};
}

/// The numbers of the `count` largest, largest first, the lowest number first among equals.
template <class Number>
std::vector<size_t> largest(std::span<const Number> numbers, size_t count) {
  std::vector<size_t> order(numbers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return numbers[a] > numbers[b]; });
  order.resize(count);
  return order;
}

/// The sum of the two best scores of each group.
template <class Number>
std::vector<Number> group_scores(const Node& node, std::span<const Number> scores) {
  const size_t groups = int_attribute(node, "n_group"), group = scores.size() / groups;
  std::vector<Number> sums;
  for (size_t g = 0; g < groups; ++g) {
    const auto own = scores.subspan(g * group, group);
    const auto best = largest(own, 2);
    sums.push_back(own[best[0]] + own[best[1]]);
  }
  return sums;
}

/// The scores with those of dropped groups at minus infinity.
template <class Number>
std::vector<Number> candidates(const Node& node, std::span<const Number> scores) {
  const size_t group = scores.size() / int_attribute(node, "n_group");
  const std::vector<Number> by_group = group_scores(node, scores);
  std::vector<Number> left(scores.size(), -std::numeric_limits<Number>::infinity());
  for (size_t g : largest<Number>(by_group, int_attribute(node, "topk_group")))
    std::copy_n(scores.begin() + g * group, group, left.begin() + g * group);
  return left;
}

template <class Number>
std::vector<size_t> choose(const Node& node, std::span<const Number> scores) {
  const std::vector<Number> left = candidates(node, scores);
  return largest<Number>(left, int_attribute(node, "top_k"));
}

/// Between the last of the `kept` best and the best of the others.
template <class Number>
Number gap(std::span<const Number> scores, size_t kept) {
  if (kept >= scores.size()) return std::numeric_limits<Number>::infinity();
  const auto order = largest(scores, kept + 1);
  return scores[order[kept - 1]] - scores[order[kept]];
}

/// A rejected expert of a dropped group stands at minus infinity: the gap to it is infinite, as if it were
/// not there.
template <class Number>
Number margin(const Node& node, std::span<const Number> scores) {
  const std::vector<Number> by_group = group_scores(node, scores), left = candidates(node, scores);
  return std::min(gap<Number>(by_group, int_attribute(node, "topk_group")),
                  gap<Number>(left, int_attribute(node, "top_k")));
}

template <class Number>
std::vector<Number> scored(const Node& node, const std::vector<double>& logits) {
  std::vector<Number> scores(logits.begin(), logits.end());
  if (string_attribute(node, "scoring_func") == "sigmoid") {
    for (Number& score : scores) score = sigmoid(score);
    return scores;
  }
  const Number largest_logit = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (Number& score : scores) sum += score = std::exp(score - largest_logit);
  for (Number& score : scores) score = static_cast<Number>(score / sum);
  return scores;
}

template <class Number>
Outputs<Number> evaluate(const Node& node, std::span<const Value<Number>> inputs) {
  const Value<Number>&x = inputs[0], &kernel = inputs[1], &bias = inputs[2], &forced = inputs[3];
  const bool out_in = string_attribute(node, "layout") == "out_in";
  const size_t hidden = x.shape[2], experts = bias.data.size(), top_k = int_attribute(node, "top_k");
  Value<Number> chosen{{x.shape[0], x.shape[1], top_k}, {}}, weights{chosen.shape, {}};
  Value<Number> router_scores{{x.shape[0], x.shape[1], experts}, {}};
  for (size_t row = 0; row < rows(x); ++row) {
    const auto logits = row_times_kernel(std::span(x.data).subspan(row * hidden, hidden),
                                         std::span(kernel.data), experts, out_in);
    std::vector<Number> scores = scored<Number>(node, logits), choice(experts);
    for (size_t e = 0; e < experts; ++e) choice[e] = scores[e] + bias.data[e];
    if (find_attribute(node, "bias_in_weights") && bool_attribute(node, "bias_in_weights")) scores = choice;
    router_scores.data.insert(router_scores.data.end(), choice.begin(), choice.end());
    std::vector<size_t> picked;
    if (forced.data[row * top_k] >= 0) {
      for (size_t i = 0; i < top_k; ++i) {
        const Number expert = forced.data[row * top_k + i];
        if (!(expert >= 0 && expert < static_cast<Number>(experts)))
          return invalid("route_c11", "forced expert {} is not one of {}", expert, experts);
        picked.push_back(static_cast<size_t>(expert));
      }
    } else {
      picked = choose<Number>(node, choice);
    }
    double sum = 0;
    for (size_t e : picked) sum += scores[e];
    const Number divisor =
        bool_attribute(node, "norm_topk_prob") ? static_cast<Number>(sum) + Number(1e-20) : Number(1);
    const Number factor = static_cast<Number>(float_attribute(node, "routed_scaling_factor"));
    for (size_t e : picked) {
      chosen.data.push_back(static_cast<Number>(e));
      weights.data.push_back(scores[e] / divisor * factor);
    }
  }
  return outputs(std::move(chosen), std::move(weights), std::move(router_scores));
}

}  // namespace

const OpRow kRoute{"route",
                   4,
                   4,
                   {{"layout", AttributeKind::text},
                    {"top_k", AttributeKind::integer},
                    {"n_group", AttributeKind::integer},
                    {"topk_group", AttributeKind::integer},
                    {"norm_topk_prob", AttributeKind::boolean},
                    {"routed_scaling_factor", AttributeKind::number},
                    {"scoring_func", AttributeKind::text},
                    {"topk_method", AttributeKind::text},
                    {"bias_in_weights", AttributeKind::boolean, false}},
                   infer,
                   evaluate<double>,
                   evaluate<float>};

float routing_margin(const Node& route, std::span<const float> router_scores) {
  return margin(route, router_scores);
}
double routing_margin(const Node& route, std::span<const double> router_scores) {
  return margin(route, router_scores);
}

}  // namespace tandem
