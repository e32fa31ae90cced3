#pragma once
// The config of deepseek_v3, read and checked.

#include <algorithm>

#include "arch/blocks/decoder.h"

namespace tandem::deepseek_v3 {

struct Config {
  DecoderConfig decoder;
  uint64_t num_attention_heads = 0;
  uint64_t intermediate_size = 0;  ///< width of the dense layers' MLP
  uint64_t moe_intermediate_size =
      0;                     ///< width of one routed expert; the shared one is n_shared_experts times as wide
  uint64_t q_lora_rank = 0;  ///< width of the query's low-rank pair; 0: one q_proj instead
  uint64_t kv_lora_rank = 0;           ///< width of the latent that keys and values are made of
  uint64_t qk_nope_head_dim = 0;       ///< part of a query or key head without rotation
  uint64_t qk_rope_head_dim = 0;       ///< part of a query or key head that is rotated
  uint64_t v_head_dim = 0;             ///< width of a value head
  bool rope_interleave = true;         ///< rotary lanes are stored as pairs (2i, 2i+1)
  bool attention_bias = false;         ///< biases on q_a_proj, kv_a_proj_with_mqa and o_proj
  uint64_t first_k_dense_replace = 0;  ///< layers before this one are dense
  uint64_t n_routed_experts = 0;
  uint64_t n_shared_experts = 0;
  uint64_t num_experts_per_tok = 0;       ///< experts chosen for a token
  uint64_t n_group = 0;                   ///< contiguous groups of experts
  uint64_t topk_group = 0;                ///< groups that stay in the choice
  bool norm_topk_prob = true;             ///< chosen weights are divided by their sum
  double routed_scaling_factor = 1;       ///< then multiplied by this
  uint64_t num_nextn_predict_layers = 0;  ///< multi-token-prediction layers, stored behind the last layer
  uint64_t fp8_block_rows = 0;            ///< rows of a block that shares one scale; 0: not quantised
  uint64_t fp8_block_columns = 0;

  uint64_t qk_head_dim() const { return qk_nope_head_dim + qk_rope_head_dim; }
  bool is_moe(uint64_t layer) const { return layer >= first_k_dense_replace; }
  uint64_t moe_layers() const {
    return decoder.num_hidden_layers - std::min(first_k_dense_replace, decoder.num_hidden_layers);
  }
};

/// Problems are noted in the reader.
Config read(ConfigReader& config);

/// Rows of every tensor, multi-token-prediction layers included: in the graph the first of them, if with_mtp.
RuleTable rules(const Config& config, bool with_mtp);

/// The two kinds of decoder layer.
Block dense_layer(const Config& config, const Layout& layout);
Block moe_layer(const Config& config, const Layout& layout);

/// True where the layout's rows put the first layer of multi-token prediction into the graph.
bool drafts(const Layout& layout);
/// What that layer computes, as it is trained: for token i the trunk's final hidden state of token i (behind
/// model.norm), and token i + 1; the logits are of token i + 2.
///
///   draft(hidden_states: [batch, tokens, hidden], input_ids, attention_mask, position_ids: i32[batch,
///   tokens])
///       -> logits f32[batch, tokens, vocab]
///
/// input_ids and position_ids are those of the tokens i + 1. Source: DeepSeek-V3 technical report, 2.2;
/// README_WEIGHTS.md; tools/train_tiny_deepseek.py, class MtpLayer.
Block draft_entry(const Config& config, const Layout& layout);

}  // namespace tandem::deepseek_v3
