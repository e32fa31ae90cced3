#pragma once
// Small models with fixed weights, for tests of contracts that are derived from others.

#include <gmock/gmock.h>

#include "arch/architecture.h"
#include "contract/evaluate.h"

namespace tandem::testing {

inline Json llama() {
  return {{"model_type", "llama"},       {"vocab_size", 11},        {"hidden_size", 8},
          {"num_hidden_layers", 2},      {"intermediate_size", 12}, {"num_attention_heads", 4},
          {"num_key_value_heads", 2},    {"attention_bias", true},  {"max_position_embeddings", 64},
          {"tie_word_embeddings", true}, {"rms_norm_eps", 1e-6}};
}

/// With yarn from 8 positions on, and one query projection or two.
inline Json deepseek_v3(bool with_q_lora = true) {
  Json json{{"model_type", "deepseek_v3"},
            {"vocab_size", 11},
            {"hidden_size", 8},
            {"num_hidden_layers", 2},
            {"intermediate_size", 12},
            {"moe_intermediate_size", 6},
            {"num_attention_heads", 2},
            {"q_lora_rank", 5},
            {"kv_lora_rank", 7},
            {"qk_nope_head_dim", 4},
            {"qk_rope_head_dim", 2},
            {"v_head_dim", 3},
            {"first_k_dense_replace", 1},
            {"n_routed_experts", 6},
            {"n_shared_experts", 1},
            {"num_experts_per_tok", 2},
            {"n_group", 3},
            {"topk_group", 2},
            {"routed_scaling_factor", 2.5},
            {"rms_norm_eps", 1e-6},
            {"max_position_embeddings", 64},
            {"rope_scaling",
             {{"type", "yarn"},
              {"factor", 4.0},
              {"original_max_position_embeddings", 8},
              {"beta_fast", 32},
              {"beta_slow", 1},
              {"mscale", 1.0},
              {"mscale_all_dim", 1.0}}}};
  if (!with_q_lora) json["q_lora_rank"] = nullptr;
  return json;
}

inline Contract contract_of(const Json& config, bool with_mtp = false) {
  const Model model = make_model(config, {{}, with_mtp}).value();
  return model.contract(model.rules, DType::f32, [](const std::string&) { return DType::f32; }).value();
}

/// Fixed by its name; gains are near 1, and all else is large enough to matter.
inline WeightLookup<double> weights_of(const Contract& contract) {
  return [&contract](const std::string& name) -> Result<Value<double>> {
    const Shape& shape = find_weight(contract, name)->shape;
    Value<double> value{shape, {}};
    uint64_t state = 1;
    for (const char c : name) state = state * 1099511628211u + static_cast<unsigned char>(c);
    for (uint64_t i = 0, count = element_count(shape).value(); i < count; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const double number = static_cast<double>(state >> 33) / 0x1p30 - 1;
      value.data.push_back(shape.size() == 1 ? 1 + number / 4 : number * 0.7);
    }
    return value;
  };
}

using Numbers = Value<double>;

/// Columns [begin, end) of rows of ids or masks.
inline Numbers columns(const std::vector<std::vector<double>>& rows, size_t begin, size_t end) {
  Numbers value{{rows.size(), end - begin}, {}};
  for (const auto& row : rows) value.data.insert(value.data.end(), row.begin() + begin, row.begin() + end);
  return value;
}

inline Values<double> evaluated(const Contract& contract, std::string_view entry,
                                const Values<double>& inputs) {
  auto result = evaluate<double>(contract, *find_entry(contract, entry), inputs, weights_of(contract));
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message());
  return result.ok() ? std::move(result).value() : Values<double>{};
}

}  // namespace tandem::testing
