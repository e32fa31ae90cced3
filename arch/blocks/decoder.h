#pragma once
// What every decoder-only model here has around its layers: embedding, final norm, head, and the entries that
// feed them.

#include "arch/architecture.h"
#include "arch/blocks/builder.h"
#include "arch/blocks/rotary.h"

namespace tandem {

/// The config keys all decoders share, read and checked.
struct DecoderConfig {
  uint64_t vocab_size = 0;   ///< rows of embed_tokens
  uint64_t hidden_size = 0;  ///< width of the residual stream
  uint64_t num_hidden_layers = 0;
  uint64_t max_position_embeddings = 0;
  double rms_norm_eps = 0;           ///< added to a mean square
  bool tie_word_embeddings = false;  ///< lm_head is embed_tokens
  std::string hidden_act;            ///< of every MLP and expert, by its name in the contract
  RotaryConfig rotary;
};
DecoderConfig read_decoder(ConfigReader& config);
/// Sets the fields of Model that a DecoderConfig and the common keys (torch_dtype or dtype, eos_token_id)
/// decide.
void fill_model(ConfigReader& config, const DecoderConfig& decoder, Model& model);

/// Sets parameters, active_parameters and carried_parameters from model.rules: a stacked row counts
/// num_experts_per_tok of its tensors as active, a tied or ignored row counts nothing.
/// Errors: C1 more than kMaxTensors tensors, or a row of more than 2^58 parameters.
Status count_parameters(Model& model);

/// Rows for embed_tokens, norm and lm_head (tied or not).
std::vector<RuleRow> decoder_rows(const DecoderConfig& config);

/// One layer of the stack: which block it calls, and whether that block takes forced experts.
struct LayerCall {
  std::string block;
  bool routed = false;
};

/// The entries logits, layer_N and (if any layer is routed) logits_forced.
/// Blocks take (hidden_states, attention_mask, cos, sin[, forced_experts]) and return one value.
std::vector<Block> decoder_entries(const DecoderConfig& config, const Layout& layout, uint64_t rotary_dim,
                                   const std::vector<LayerCall>& layers, uint64_t num_experts_per_tok);

/// One layer in an entry of its own: the call, what stands before it (the rotary table of position_ids, and
/// "no expert forced" in the shape of `ids`), and the name of its output.
std::string call_single_layer(BlockBuilder& entry, const DecoderConfig& config, const Layout& layout,
                              uint64_t rotary_dim, const LayerCall& layer, size_t index,
                              uint64_t num_experts_per_tok, const std::string& ids, const std::string& x,
                              std::string output);

/// logits in float32, of hidden states behind the final norm: x times a weight of the contract, whose row in
/// the rules has that Hugging Face pattern; tap = module.
std::string head(BlockBuilder& entry, const Layout& layout, const std::string& module,
                 const std::string& weight, const std::string& hf_pattern, const std::string& x);

/// The inputs of a decoder_layer block, declared in the order above.
struct LayerInputs {
  std::string hidden_states, attention_mask, cos, sin;
};
LayerInputs layer_inputs(BlockBuilder& block, const Layout& layout, uint64_t hidden_size,
                         uint64_t rotary_dim);

}  // namespace tandem
