#include "lower/torch/torch_ops.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/roll.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <limits>
#include <set>

#include "contract/ops/attention.h"
#include "contract/ops/head_linear.h"
#include "contract/ops/rotary_table.h"
#include "lower/torch/activation.h"
#include "lower/torch/lower_torch.h"

namespace tandem {
namespace {

using Outputs = Result<std::vector<at::Tensor>>;

Outputs one(at::Tensor tensor) { return std::vector<at::Tensor>{std::move(tensor)}; }

bool is_out_in(const Node& node) { return string_attribute(node, "layout") == "out_in"; }

/// x . kernel for either layout.
at::Tensor product(const at::Tensor& x, const at::Tensor& kernel, bool out_in) {
  return at::linear(x, out_in ? kernel : kernel.t());
}

/// Rounded to a float type in f64 evaluation too; by way of f32, as the contract's evaluator does.
at::Tensor rounded(const at::Tensor& x, at::ScalarType type) {
  return (x.scalar_type() == at::kDouble ? x.to(at::kFloat) : x).to(type);
}

// ---- shapes and constants
// ----------------------------------------------------------------------------------------------

Outputs positions(const TorchCall& call) {
  return one((call[0].to(at::kLong).cumsum(1) - 1).clamp_min(0).to(at::kInt));
}

Outputs fill_like(const TorchCall& call) {
  std::vector<int64_t> shape{call[0].size(0), call[0].size(1)};
  const std::vector<int64_t>& last = ints_attribute(call.node, "last");
  shape.insert(shape.end(), last.begin(), last.end());
  return one(at::full(shape, int_attribute(call.node, "value"), at::kInt));
}

Outputs select(const TorchCall& call) {
  return one(call[0].select(int_attribute(call.node, "axis"), int_attribute(call.node, "index")));
}

Outputs split_heads(const TorchCall& call) {  // [batch, tokens, heads * size] to [batch, heads, tokens, size]
  const at::Tensor& x = call[0];
  const int64_t heads = int_attribute(call.node, "heads");
  return one(x.reshape({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2));
}

Outputs merge_heads(const TorchCall& call) {
  const at::Tensor& x = call[0];
  return one(x.transpose(1, 2).reshape({x.size(0), x.size(2), x.size(1) * x.size(3)}));
}

Outputs repeat_heads(const TorchCall& call) {
  const at::Tensor& x = call[0];
  return one(x.expand({x.size(0), int_attribute(call.node, "heads"), x.size(2), x.size(3)}));
}

Outputs gather_heads(const TorchCall& call) {
  return one(call[0].index_select(1, at::tensor(at::ArrayRef<int64_t>(ints_attribute(call.node, "order")))));
}

Outputs roll(const TorchCall& call) {
  return one(at::roll(call[0], int_attribute(call.node, "shift"), int_attribute(call.node, "axis")));
}

Outputs slice(const TorchCall& call) {
  return one(call[0].narrow(-1, int_attribute(call.node, "begin"), int_attribute(call.node, "size")));
}

Outputs concat(const TorchCall& call) { return one(at::cat({call[0], call[1]}, -1)); }

Outputs append(const TorchCall& call) {
  return one(at::cat({call[0], call[1]}, int_attribute(call.node, "axis")));
}

Outputs last_tokens(const TorchCall& call) {
  const int64_t count = int_attribute(call.node, "count"), tokens = call[0].size(1);
  if (count > tokens)
    return invalid("last_tokens_c2", "count is {}, expected 1 to the {} tokens of x", count, tokens);
  return one(call[0].narrow(1, tokens - count, count));
}

Outputs cast(const TorchCall& call) {
  TANDEM_TRY(const at::ScalarType type, torch_type(*dtype_named(string_attribute(call.node, "dtype"))));
  const bool always = find_attribute(call.node, "always") && bool_attribute(call.node, "always");
  return one(always ? rounded(call[0], type).to(call.type(type)) : call[0].to(call.type(type)));
}

// ---- dense
// -------------------------------------------------------------------------------------------------------------

Outputs embedding(const TorchCall& call) { return one(at::embedding(call[1], call[0])); }

Outputs linear(const TorchCall& call) {
  const at::Tensor kernel = is_out_in(call.node) ? call[1] : call[1].t();
  return one(call.inputs.size() > 2 ? at::linear(call[0], kernel, call[2]) : at::linear(call[0], kernel));
}

Outputs head_linear(const TorchCall& call) {
  const at::Tensor& x = call[0];  // [batch, heads, tokens, n]
  const HeadLinearForm form =
      head_linear_form(call.node, static_cast<uint64_t>(x.size(1)),
                       {static_cast<uint64_t>(call[1].size(0)), static_cast<uint64_t>(call[1].size(1))});
  const auto in = static_cast<int64_t>(form.in), width = static_cast<int64_t>(form.width);
  const at::Tensor heads = form.out_in ? call[1].reshape({x.size(1), width, in})
                                       : call[1].reshape({in, x.size(1), width}).permute({1, 2, 0});
  const at::Tensor kernels = heads.narrow(1, static_cast<int64_t>(form.begin),
                                          static_cast<int64_t>(form.size));  // [heads, size, in]
  return one(at::matmul(x, form.transpose ? kernels : kernels.transpose(1, 2)));
}

Outputs rms_norm(const TorchCall& call) {
  const at::Tensor x = call[0].to(call.wide());
  const at::Tensor mean_square = x.pow(2).mean({-1}, /*keepdim=*/true);
  const at::Tensor y = x * at::rsqrt(mean_square + float_attribute(call.node, "epsilon"));
  return one(call[1] * y.to(call[0].scalar_type()));
}

Outputs add(const TorchCall& call) { return one(call[0] + call[1]); }

Outputs activation_gate(const TorchCall& call) {
  TANDEM_TRY(const at::Tensor gate, activate(string_attribute(call.node, "hidden_act"), call[0]));
  return one(gate * call[1]);
}

// ---- rotary and attention
// ----------------------------------------------------------------------------------------------

Outputs rotary_table(const TorchCall& call) {
  const at::Tensor& position_ids = call[0];
  const int64_t longest = position_ids.numel() == 0 ? -1 : position_ids.max().item<int64_t>();
  TANDEM_TRY(const RotaryScaling scaling, rotary_scaling(call.node));
  TANDEM_TRY(const RotaryFrequencies table,
             rotary_frequencies(scaling, static_cast<uint64_t>(std::max<int64_t>(longest + 1, 0))));
  TANDEM_TRY(const at::ScalarType type, torch_type(*dtype_named(string_attribute(call.node, "dtype"))));
  const at::Tensor frequencies = at::tensor(at::ArrayRef<float>(table.inverse_frequencies), at::kFloat);
  const at::Tensor half = position_ids.to(at::kFloat).unsqueeze(-1) *
                          frequencies;  // in f32 always: the angles belong to the model
  const at::Tensor angles = at::cat({half, half}, -1).to(call.wide());
  return std::vector<at::Tensor>{(angles.cos() * table.attention_factor).to(call.type(type)),
                                 (angles.sin() * table.attention_factor).to(call.type(type))};
}

Outputs rotary(const TorchCall& call) {
  const at::Tensor& x = call[0];  // [batch, heads, tokens, dim]
  const int64_t half = x.size(-1) / 2;
  const bool interleaved = bool_attribute(call.node, "interleaved");
  const at::Tensor a = interleaved ? x.slice(-1, 0, std::nullopt, 2) : x.narrow(-1, 0, half);
  const at::Tensor b = interleaved ? x.slice(-1, 1, std::nullopt, 2) : x.narrow(-1, half, half);
  const at::Tensor cos = call[1].narrow(-1, 0, half).unsqueeze(1),
                   sin = call[2].narrow(-1, 0, half).unsqueeze(1);
  return one(at::cat({a * cos - b * sin, b * cos + a * sin}, -1));
}

/// [batch, kv_heads, tokens, size] with each head as often as query heads read it.
at::Tensor for_each_query_head(const at::Tensor& x, int64_t heads) {
  if (x.size(1) == heads) return x;
  const int64_t readers = heads / x.size(1);
  return x.unsqueeze(2)
      .expand({x.size(0), x.size(1), readers, x.size(2), x.size(3)})
      .reshape({x.size(0), heads, x.size(2), x.size(3)});
}

double finite_minimum(at::ScalarType type) {
  if (type == at::kDouble) return std::numeric_limits<double>::lowest();
  if (type == at::kHalf) return -65504.0;
  return type == at::kBFloat16 ? -0x1.fep127 : std::numeric_limits<float>::lowest();
}

Outputs attention(const TorchCall& call) {
  constexpr int64_t kQueries = 1024;  // at a time: bounds the score matrix of a long prompt
  const at::Tensor& q = call[0];
  const at::Tensor k = for_each_query_head(call[1], q.size(1)), v = for_each_query_head(call[2], q.size(1));
  const at::Tensor seen = call[3].ne(0).unsqueeze(1).unsqueeze(1);  // [batch, 1, 1, keys]
  const at::Tensor keys = at::arange(k.size(2));
  const AttentionForm form = attention_form(call.node);
  TANDEM_TRY(const at::ScalarType softmax_type, torch_type(form.softmax_dtype.value_or(DType::f32)));
  const auto in_softmax_type = [&](const at::Tensor& x) {  // and back
    return form.softmax_dtype ? rounded(x, softmax_type).to(x.scalar_type()) : x;
  };
  std::vector<at::Tensor> parts;
  for (int64_t begin = 0; begin == 0 || begin < q.size(2); begin += kQueries) {
    const int64_t count = std::min(kQueries, q.size(2) - begin);
    const at::Tensor queries = at::arange(begin, begin + count).unsqueeze(-1);
    const int64_t last = k.size(2) - q.size(2) + form.diagonal;  // key that the first query sees
    const at::Tensor allowed =
        form.causal ? keys.le(queries + last).logical_and(seen) : seen;  // [batch, 1, queries or 1, keys]
    const at::Tensor scores = in_softmax_type(at::matmul(q.narrow(2, begin, count), k.transpose(2, 3)) *
                                              float_attribute(call.node, "scale"));
    const at::Tensor masked = scores.masked_fill(allowed.logical_not(), finite_minimum(scores.scalar_type()));
    const at::Tensor weights = in_softmax_type(at::softmax(masked, -1, call.wide()));
    parts.push_back(at::matmul(weights.to(v.scalar_type()), v));
  }
  return one(at::cat(parts, 2));
}

Outputs cached_attention(const TorchCall& call) {
  const std::vector<at::Tensor> joined{call[0], at::cat({call[1], call[3]}, 2),
                                       at::cat({call[2], call[4]}, 2),
                                       at::cat({call[5], at::ones({call[0].size(0), 1}, at::kInt)}, 1)};
  return attention({call.node, joined, call.float64});
}

// ---- mixture of experts
// ------------------------------------------------------------------------------------------------

/// Numbers of the largest `count` of the last axis, largest first, the lowest number first among equals.
at::Tensor largest(const at::Tensor& x, int64_t count) {
  return std::get<1>(at::sort(x, /*stable=*/true, /*dim=*/-1, /*descending=*/true)).narrow(-1, 0, count);
}

at::Tensor choose(const Node& node, const at::Tensor& choice) {
  const int64_t groups = int_attribute(node, "n_group");
  const at::Tensor grouped =
      choice.reshape({choice.size(0), choice.size(1), groups, choice.size(2) / groups});
  const at::Tensor group_scores = grouped.gather(-1, largest(grouped, 2)).sum(-1);
  const at::Tensor kept = at::zeros_like(group_scores, at::kBool)
                              .scatter(-1, largest(group_scores, int_attribute(node, "topk_group")), true);
  const at::Tensor candidates =
      grouped.masked_fill(kept.unsqueeze(-1).logical_not(), -std::numeric_limits<double>::infinity());
  return largest(candidates.reshape(choice.sizes()), int_attribute(node, "top_k"));
}

Outputs route(const TorchCall& call) {
  const at::Tensor logits = product(call[0].to(call.wide()), call[1], is_out_in(call.node));
  const bool sigmoid = string_attribute(call.node, "scoring_func") == "sigmoid";
  const at::Tensor scores = sigmoid ? logits.sigmoid() : at::softmax(logits, -1);  // [batch, tokens, experts]
  const at::Tensor forced = call[3].to(at::kLong);
  if (forced.numel() != 0 && forced.max().item<int64_t>() >= scores.size(-1))
    return invalid("route_c11", "forced expert {} is not one of {}", forced.max().item<int64_t>(),
                   scores.size(-1));
  const at::Tensor router_scores = scores + call[2];
  const at::Tensor chosen =
      at::where(forced.narrow(-1, 0, 1).ge(0), forced, choose(call.node, router_scores));
  const bool bias_in_weights =
      find_attribute(call.node, "bias_in_weights") && bool_attribute(call.node, "bias_in_weights");
  at::Tensor weights = (bias_in_weights ? router_scores : scores).gather(-1, chosen);
  if (bool_attribute(call.node, "norm_topk_prob"))
    weights = weights / (weights.sum({-1}, /*keepdim=*/true) + 1e-20);
  return std::vector<at::Tensor>{
      chosen.to(at::kInt), weights * float_attribute(call.node, "routed_scaling_factor"), router_scores};
}

Outputs experts(const TorchCall& call) {
  const auto chunks = static_cast<size_t>(int_attribute(call.node, "chunks"));
  const bool out_in = is_out_in(call.node);
  const std::string& hidden_act = string_attribute(call.node, "hidden_act");
  const at::Tensor x = call[0].reshape({-1, call[0].size(2)});
  const at::Tensor chosen = call[1].reshape({-1, call[1].size(2)}),
                   weights = call[2].reshape({-1, call[2].size(2)});
  at::Tensor y = at::zeros_like(x);
  int64_t expert = 0;
  for (size_t chunk = 0; chunk < chunks; ++chunk) {
    const at::Tensor &gates = call[3 + chunk], &ups = call[3 + chunks + chunk],
                     &downs = call[3 + 2 * chunks + chunk];
    for (int64_t i = 0; i < gates.size(0); ++i, ++expert) {
      const at::Tensor hits = chosen.eq(expert).nonzero();  // [rows, 2]: token, place among its experts
      if (hits.size(0) == 0) continue;
      const at::Tensor token = hits.select(1, 0), place = hits.select(1, 1);
      const at::Tensor rows = x.index_select(0, token);
      TANDEM_TRY(const at::Tensor gate, activate(hidden_act, product(rows, gates[i], out_in)));
      const at::Tensor inner = gate * product(rows, ups[i], out_in);
      const at::Tensor weight = weights.index_select(0, token).gather(1, place.unsqueeze(1));
      y.index_add_(0, token, (product(inner, downs[i], out_in) * weight).to(y.scalar_type()));
    }
  }
  return one(y.reshape(call[0].sizes()));
}

TorchRows distinct(const at::Tensor& numbers) {
  const at::Tensor flat = numbers.to(at::kLong).contiguous();
  const int64_t* data = flat.const_data_ptr<int64_t>();
  const std::set<int64_t> rows(data, data + flat.numel());
  return std::vector<int64_t>(rows.begin(), rows.end());
}

TorchRows embedding_rows(const Node&, std::span<const at::Tensor> before) { return distinct(before[0]); }

/// The chosen experts, counted from the first of the chunk.
TorchRows experts_rows(const Node& node, std::span<const at::Tensor> before) {
  const auto chunks = static_cast<size_t>(int_attribute(node, "chunks"));
  TorchRows rows = distinct(before[1]);
  for (size_t i = before.size() - (before.size() - 3) % chunks; i < before.size(); ++i)
    for (int64_t& row : *rows) row -= before[i].size(0);
  return rows;
}

constexpr TorchOpRow kRows[] = {
    {"activation_gate", activation_gate},
    {"add", add},
    {"append", append},
    {"attention", attention},
    {"cached_attention", cached_attention},
    {"cast", cast},
    {"concat", concat},
    {"embedding", embedding, embedding_rows},
    {"experts", experts, experts_rows},
    {"fill_like", fill_like},
    {"gather_heads", gather_heads},
    {"head_linear", head_linear},
    {"last_tokens", last_tokens},
    {"linear", linear},
    {"merge_heads", merge_heads},
    {"positions", positions},
    {"repeat_heads", repeat_heads},
    {"rms_norm", rms_norm},
    {"roll", roll},
    {"rotary", rotary},
    {"rotary_table", rotary_table},
    {"route", route},
    {"select", select},
    {"slice", slice},
    {"split_heads", split_heads},
};

}  // namespace

at::ScalarType TorchCall::type(at::ScalarType contract_type) const {
  return float64 && at::isFloatingType(contract_type) ? at::kDouble : contract_type;
}

std::span<const TorchOpRow> torch_op_rows() { return kRows; }

}  // namespace tandem
