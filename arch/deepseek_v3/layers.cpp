#include <cmath>

#include "arch/deepseek_v3/config.h"

namespace tandem::deepseek_v3 {
namespace {

constexpr std::string_view kLayer = "model.layers.{layer}.";
constexpr double kLatentEpsilon =
    1e-6;  // q_a_layernorm and kv_a_layernorm take the class's default, not rms_norm_eps

std::string heads(BlockBuilder& b, const std::string& name, const std::string& x, uint64_t count) {
  return b.op("split_heads", name, {value(x)}, {{"heads", static_cast<int64_t>(count)}});
}

std::string part(BlockBuilder& b, const std::string& name, const std::string& x, uint64_t begin,
                 uint64_t size) {
  return b.op("slice", name, {value(x)},
              {{"begin", static_cast<int64_t>(begin)}, {"size", static_cast<int64_t>(size)}});
}

/// Multi-head latent attention on the normalised hidden states h [batch, tokens, hidden]; tap self_attn.
std::string latent_attention(BlockBuilder& b, const Config& c, const Layout& layout, const LayerInputs& in,
                             const std::string& h) {
  const uint64_t hidden = c.decoder.hidden_size, n = c.num_attention_heads;
  const uint64_t nope = c.qk_nope_head_dim, rope = c.qk_rope_head_dim;
  const auto rotate = [&](const std::string& name, const std::string& x) {
    return b.op("rotary", name, {value(x), value(in.cos), value(in.sin)},
                {{"interleaved", c.rope_interleave}});
  };
  const auto project = [&](const std::string& module, const std::string& name, const std::string& x,
                           uint64_t width_in, uint64_t width_out, bool bias) {
    return linear(b, layout, kLayer, "self_attn." + module, name, x, width_in, width_out, bias);
  };

  std::string q;  // [batch, tokens, heads * (nope + rope)]
  if (c.q_lora_rank > 0) {
    const std::string q_a = project("q_a_proj", "q_a", h, hidden, c.q_lora_rank, c.attention_bias);
    const std::string q_n =
        norm(b, layout, "self_attn.q_a_layernorm", "q_latent", q_a, c.q_lora_rank, kLatentEpsilon);
    q = project("q_b_proj", "q", q_n, c.q_lora_rank, n * c.qk_head_dim(), false);
  } else {
    q = project("q_proj", "q", h, hidden, n * c.qk_head_dim(), false);
  }
  q = heads(b, "q_heads", q, n);
  const std::string q_nope = part(b, "q_nope", q, 0, nope);
  const std::string q_rope = rotate("q_rotated", part(b, "q_rope", q, nope, rope));

  const std::string kv_a =
      project("kv_a_proj_with_mqa", "kv_a", h, hidden, c.kv_lora_rank + rope, c.attention_bias);
  const std::string latent =
      norm(b, layout, "self_attn.kv_a_layernorm", "kv_latent",
           part(b, "kv_compressed", kv_a, 0, c.kv_lora_rank), c.kv_lora_rank, kLatentEpsilon);
  const std::string kv = heads(
      b, "kv_heads", project("kv_b_proj", "kv", latent, c.kv_lora_rank, n * (nope + c.v_head_dim), false), n);
  const std::string k_nope = part(b, "k_nope", kv, 0, nope);
  const std::string v = part(b, "v", kv, nope, c.v_head_dim);
  // One rotated key part for all heads.
  const std::string k_rope =
      rotate("k_rotated", heads(b, "k_rope_head", part(b, "k_rope", kv_a, c.kv_lora_rank, rope), 1));
  const std::string k_shared =
      b.op("repeat_heads", "k_rope_heads", {value(k_rope)}, {{"heads", static_cast<int64_t>(n)}});

  const std::string query = b.op("concat", "query", {value(q_nope), value(q_rope)});
  const std::string key = b.op("concat", "key", {value(k_nope), value(k_shared)});
  const double scale =
      std::pow(static_cast<double>(c.qk_head_dim()), -0.5) * c.decoder.rotary.latent_score_multiplier;
  const std::string attended =
      b.op("attention", "attended", {value(query), value(key), value(v), value(in.attention_mask)},
           {{"scale", scale}});
  const std::string merged = b.op("merge_heads", "merged", {value(attended)});
  return project("o_proj", "a", merged, n * c.v_head_dim, hidden, c.attention_bias);
}

/// Contract names of one projection's chunks, as block weights.
void expert_kernels(BlockBuilder& b, const Config& c, const Layout& layout, const std::string& module,
                    uint64_t in, uint64_t out, std::vector<Operand>& operands) {
  const std::string pattern = std::string(kLayer) + "mlp.experts.{expert}." + module + ".weight";
  const std::string order = layout.of(pattern);
  uint64_t chunk = c.n_routed_experts;
  for (const RuleRow& row : layout.rules.rows)
    if (row.hf == pattern)
      for (const Step& step : row.steps)
        if (const auto* stack = std::get_if<Stack>(&step)) chunk = std::min(chunk, stack->chunk);
  const std::string name = "mlp.experts." + module + ".weight";
  for (uint64_t begin = 0; begin < c.n_routed_experts; begin += chunk) {
    const uint64_t experts = std::min(chunk, c.n_routed_experts - begin);
    TensorType type = kernel_type(layout.compute, order, in, out);
    type.shape.insert(type.shape.begin(), Dim(experts));
    operands.push_back(
        b.weight(chunk < c.n_routed_experts ? fmt::format("{}.{}", name, begin / chunk) : name, type));
  }
}

/// Shared expert plus the weighted chosen ones; tap mlp.
std::string mixture(BlockBuilder& b, const Config& c, const Layout& layout, const std::string& x,
                    const std::string& forced) {
  const uint64_t hidden = c.decoder.hidden_size, width = c.moe_intermediate_size;
  const std::string order = layout.of(std::string(kLayer) + "mlp.gate.weight");
  b.multi("route", {"chosen", "chosen_weights", "router_scores"},
          {value(x), b.weight("mlp.gate.weight", kernel_type(DType::f32, order, hidden, c.n_routed_experts)),
           b.weight("mlp.gate.e_score_correction_bias", f32({c.n_routed_experts})), value(forced)},
          {{"layout", order},
           {"top_k", static_cast<int64_t>(c.num_experts_per_tok)},
           {"n_group", static_cast<int64_t>(c.n_group)},
           {"topk_group", static_cast<int64_t>(c.topk_group)},
           {"norm_topk_prob", c.norm_topk_prob},
           {"routed_scaling_factor", c.routed_scaling_factor},
           {"scoring_func", std::string("sigmoid")},
           {"topk_method", std::string("noaux_tc")}},
          "mlp.gate");
  std::vector<Operand> operands{value(x), value("chosen"), value("chosen_weights")};
  const size_t before = operands.size();
  expert_kernels(b, c, layout, "gate_proj", hidden, width, operands);
  const auto chunks = static_cast<int64_t>(operands.size() - before);
  expert_kernels(b, c, layout, "up_proj", hidden, width, operands);
  expert_kernels(b, c, layout, "down_proj", width, hidden, operands);
  const std::string expert_order = layout.of(std::string(kLayer) + "mlp.experts.{expert}.gate_proj.weight");
  const std::string routed = b.op(
      "experts", "routed", std::move(operands),
      {{"layout", expert_order}, {"chunks", chunks}, {"hidden_act", c.decoder.hidden_act}}, "mlp.experts");
  const std::string shared = gated_mlp(b, layout, kLayer, "mlp.shared_experts", "shared", x, hidden,
                                       width * c.n_shared_experts, false, c.decoder.hidden_act);
  return b.op("add", "m", {value(routed), value(shared)}, {}, "mlp");
}

/// The part both kinds of layer share: y = x + attention(norm(x)), g = norm(y).
struct Attended {
  std::string y, g;
};
Attended attend(BlockBuilder& b, const Config& c, const Layout& layout, const LayerInputs& in) {
  const uint64_t hidden = c.decoder.hidden_size;
  const std::string h =
      norm(b, layout, "input_layernorm", "h", in.hidden_states, hidden, c.decoder.rms_norm_eps);
  const std::string a = latent_attention(b, c, layout, in, h);
  const std::string y = b.op("add", "y", {value(in.hidden_states), value(a)});
  return {y, norm(b, layout, "post_attention_layernorm", "g", y, hidden, c.decoder.rms_norm_eps)};
}

}  // namespace

Block dense_layer(const Config& c, const Layout& layout) {
  BlockBuilder b("decoder_layer_dense");
  const LayerInputs in = layer_inputs(b, layout, c.decoder.hidden_size, c.qk_rope_head_dim);
  const auto [y, g] = attend(b, c, layout, in);
  const std::string m = gated_mlp(b, layout, kLayer, "mlp", "m", g, c.decoder.hidden_size,
                                  c.intermediate_size, false, c.decoder.hidden_act);
  return b.finish({b.op("add", "out", {value(y), value(m)})});
}

Block moe_layer(const Config& c, const Layout& layout) {
  BlockBuilder b("decoder_layer_moe");
  const LayerInputs in = layer_inputs(b, layout, c.decoder.hidden_size, c.qk_rope_head_dim);
  const std::string forced = b.input("forced_experts", i32({"batch", "tokens", c.num_experts_per_tok}));
  const auto [y, g] = attend(b, c, layout, in);
  return b.finish({b.op("add", "out", {value(y), value(mixture(b, c, layout, g, forced))})});
}

}  // namespace tandem::deepseek_v3
