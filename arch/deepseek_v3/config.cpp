#include "arch/deepseek_v3/config.h"

namespace tandem::deepseek_v3 {
namespace {

/// A key that only one value of is known here.
void expect_text(ConfigReader& config, std::string_view key, const std::string& expected) {
  const std::string found = config.text_or(key, expected);
  if (found != expected) config.problem(key, fmt::format("is \"{}\", expected \"{}\"", found, expected));
}

/// A key that repeats what other keys say.
void expect_size(ConfigReader& config, std::string_view key, uint64_t expected, std::string_view reason) {
  if (!config.has(key)) return;
  const uint64_t found = config.size(key, 0, kMaxWidth);
  if (found != expected) config.problem(key, fmt::format("is {}, expected {} ({})", found, expected, reason));
}

void read_attention(ConfigReader& config, Config& c) {
  c.num_attention_heads = config.size("num_attention_heads", 1, kMaxHeads);
  c.kv_lora_rank = config.size("kv_lora_rank", 1, kMaxWidth);
  c.qk_nope_head_dim = config.size("qk_nope_head_dim", 1, kMaxWidth);
  c.qk_rope_head_dim = config.size("qk_rope_head_dim", 2, kMaxWidth);
  c.v_head_dim = config.size("v_head_dim", 1, kMaxWidth);
  expect_rotary_dim(config, "qk_rope_head_dim", c.qk_rope_head_dim, c.decoder.rotary);
  c.q_lora_rank = config.size_or("q_lora_rank", 0, 1, kMaxWidth);
  if (!config.contains("q_lora_rank"))
    config.problem("q_lora_rank", "is missing, expected a rank, or null for a plain q_proj");
  c.rope_interleave =
      config.boolean_or("rope_interleave", true);  // absent in the releases, which are interleaved
  c.attention_bias = config.boolean_or("attention_bias", false);
  expect_size(config, "num_key_value_heads", c.num_attention_heads,
              "latent attention has one key for each query head");
  expect_size(config, "qk_head_dim", c.qk_head_dim(), "qk_nope_head_dim + qk_rope_head_dim");
  expect_size(config, "head_dim", c.qk_rope_head_dim, "qk_rope_head_dim");
}

void read_experts(ConfigReader& config, Config& c) {
  c.first_k_dense_replace = config.size("first_k_dense_replace", 0, kMaxLayers);
  c.intermediate_size = config.size("intermediate_size", 1, kMaxWidth);
  c.moe_intermediate_size = config.size("moe_intermediate_size", 1, kMaxWidth);
  c.n_routed_experts = config.has("num_local_experts") ? config.size("num_local_experts", 1, kMaxExperts)
                                                       : config.size("n_routed_experts", 1, kMaxExperts);
  config.mark_read("n_routed_experts");
  c.n_shared_experts = config.size("n_shared_experts", 1, kMaxExperts);
  c.num_experts_per_tok = config.size("num_experts_per_tok", 1, kMaxExperts);
  c.n_group = config.size("n_group", 1, kMaxExperts);
  c.topk_group = config.size("topk_group", 1, kMaxExperts);
  c.norm_topk_prob = config.boolean_or("norm_topk_prob", true);
  c.routed_scaling_factor = config.number("routed_scaling_factor");
  expect_text(config, "scoring_func", "sigmoid");
  expect_text(config, "topk_method", "noaux_tc");
  expect_size(config, "moe_layer_freq", 1, "every layer from first_k_dense_replace on has experts");
  if (c.n_routed_experts % c.n_group != 0)
    config.problem("n_group", fmt::format("is {}, expected a divisor of n_routed_experts = {}", c.n_group,
                                          c.n_routed_experts));
  else if (c.n_routed_experts / c.n_group < 2)
    config.problem("n_group", fmt::format("is {}, expected at least two experts in each group of {}",
                                          c.n_group, c.n_routed_experts));
  if (c.topk_group > c.n_group)
    config.problem("topk_group",
                   fmt::format("is {}, expected at most n_group = {}", c.topk_group, c.n_group));
  const uint64_t choice = c.n_routed_experts / c.n_group * std::min(c.topk_group, c.n_group);
  if (c.num_experts_per_tok > choice)
    config.problem("num_experts_per_tok",
                   fmt::format("is {}, expected at most {}, the experts in topk_group groups",
                               c.num_experts_per_tok, choice));
}

void read_quantization(ConfigReader& config, Config& c) {
  const Json* object = config.object_or_null("quantization_config");
  if (!object) return;
  ConfigReader& quantization = config.nested(*object, "quantization_config.");
  expect_text(quantization, "quant_method", "fp8");
  expect_text(quantization, "fmt", "e4m3");
  quantization.mark_read(
      "activation_scheme");             // how a serving engine rounds activations; weights alone are stored
  quantization.mark_read("scale_fmt");  // scales that are powers of two are multiplied like any other
  quantization.mark_read("modules_to_not_convert");  // says again which weights have no scale
  const auto block = object->find("weight_block_size");
  quantization.mark_read("weight_block_size");
  const bool pair = block != object->end() && block->is_array() && block->size() == 2 &&
                    (*block)[0].is_number_unsigned() && (*block)[1].is_number_unsigned();
  if (!pair || (*block)[0].get<uint64_t>() == 0 || (*block)[1].get<uint64_t>() == 0) {
    quantization.problem("weight_block_size",
                         fmt::format("is {}, expected two sizes such as [128, 128]",
                                     pair || block != object->end() ? block->dump() : "missing"));
    return;
  }
  c.fp8_block_rows = (*block)[0].get<uint64_t>();
  c.fp8_block_columns = (*block)[1].get<uint64_t>();
}

}  // namespace

Config read(ConfigReader& config) {
  Config c;
  c.decoder = read_decoder(config);
  read_attention(config, c);
  read_experts(config, c);
  read_quantization(config, c);
  c.num_nextn_predict_layers = config.size_or(
      "num_nextn_predict_layers", config.size_or("num_mtp_layers", 0, 0, kMaxLayers), 0, kMaxLayers);
  return c;
}

}  // namespace tandem::deepseek_v3
