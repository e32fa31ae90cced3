#include <cstdlib>

#include "arch/architecture.h"
#include "arch/config_reader.h"
#include "contract/check.h"
#include "fuzz/fuzz.h"

namespace tandem::fuzz {

/// config.json. What is accepted has sizes within the bounds; of a small model the rules make names and the
/// contract checks.
void fuzz_one(std::span<const std::byte> bytes) {
  const auto json = parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!json.ok()) return;
  const auto made = make_model(json.value());
  if (!made.ok()) return;
  const Model& model = made.value();
  if (model.vocab_size > kMaxVocab || model.hidden_size > kMaxWidth || model.num_hidden_layers > kMaxLayers)
    std::abort();
  if (!check(model.rules).ok() || model.parameters == 0) std::abort();
  if (model.num_hidden_layers > 4 || model.max_position_embeddings > 4096) return;
  if (expand(model.rules).empty()) std::abort();
  const auto contract =
      model.contract(model.rules, DType::f32, [](const std::string&) { return DType::f32; });
  if (contract.ok() && !check(contract.value()).ok()) std::abort();
}

std::vector<std::string> seeds() {
  return {
      R"({"model_type":"llama","vocab_size":11,"hidden_size":8,"num_hidden_layers":2,"intermediate_size":12,)"
      R"("num_attention_heads":4,"num_key_value_heads":2,"rms_norm_eps":1e-6,"max_position_embeddings":64,)"
      R"("rope_scaling":{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,)"
      R"("original_max_position_embeddings":32},"eos_token_id":[1,2],"torch_dtype":"bfloat16"})",
      R"({"model_type":"llama","vocab_size":11,"hidden_size":8,"num_hidden_layers":1,"intermediate_size":12,)"
      R"("num_attention_heads":2,"rms_norm_eps":1e-6,"max_position_embeddings":64,"attention_bias":true,)"
      R"("mlp_bias":true,"tie_word_embeddings":true,"head_dim":6,"hidden_act":"gelu",)"
      R"("rope_scaling":{"type":"dynamic","factor":2.0}})",
      R"({"model_type":"deepseek_v3","vocab_size":11,"hidden_size":8,"num_hidden_layers":3,)"
      R"("intermediate_size":12,"moe_intermediate_size":6,"num_attention_heads":2,"q_lora_rank":5,)"
      R"("kv_lora_rank":7,"qk_nope_head_dim":4,"qk_rope_head_dim":2,"v_head_dim":3,"first_k_dense_replace":1,)"
      R"("n_routed_experts":6,"n_shared_experts":2,"num_experts_per_tok":2,"n_group":3,"topk_group":2,)"
      R"("routed_scaling_factor":2.5,"rms_norm_eps":1e-6,"max_position_embeddings":64,)"
      R"("num_nextn_predict_layers":1,"rope_scaling":{"type":"yarn","factor":40,"beta_fast":32,"beta_slow":1,)"
      R"("mscale":1.0,"mscale_all_dim":1.0,"original_max_position_embeddings":16},)"
      R"("quantization_config":{"quant_method":"fp8","fmt":"e4m3","activation_scheme":"dynamic",)"
      R"("weight_block_size":[128,128]}})",
  };
}

}  // namespace tandem::fuzz
