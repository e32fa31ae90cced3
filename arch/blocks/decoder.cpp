#include "arch/blocks/decoder.h"

#include "contract/ops/activation.h"

namespace tandem {
namespace {

constexpr std::string_view kEmbedding = "model.embed_tokens.weight";
constexpr std::string_view kHead = "lm_head.weight";

TensorType ids() { return i32({"batch", "tokens"}); }

/// cos and sin for the entry's positions.
void rotary_table(BlockBuilder& entry, const DecoderConfig& config, const Layout& layout,
                  uint64_t rotary_dim) {
  Attributes attributes = config.rotary.attributes;
  attributes["dim"] = static_cast<int64_t>(rotary_dim);
  attributes["dtype"] = std::string(name(layout.compute));
  entry.multi("rotary_table", {"cos", "sin"}, {value("position_ids")}, attributes, "model.rotary_emb");
}

std::string call_layer(BlockBuilder& entry, const LayerCall& layer, size_t index, std::string output,
                       const std::string& x, const std::string& forced) {
  std::vector<Operand> inputs{value(x), value("attention_mask"), value("cos"), value("sin")};
  if (layer.routed) inputs.push_back(value(forced));
  const std::string at = fmt::format("model.layers.{}", index);
  return entry.op("call", std::move(output), std::move(inputs), {{"block", layer.block}, {"at", at}}, at);
}

Attributes no_experts(uint64_t num_experts_per_tok) {
  return {{"value", int64_t{-1}}, {"last", std::vector<int64_t>{static_cast<int64_t>(num_experts_per_tok)}}};
}

Block logits_entry(const DecoderConfig& config, const Layout& layout, uint64_t rotary_dim,
                   const std::vector<LayerCall>& layers, uint64_t num_experts_per_tok, uint64_t moe_layers,
                   bool forced) {
  BlockBuilder entry(forced ? "logits_forced" : "logits");
  entry.input("input_ids", ids());
  entry.input("attention_mask", ids());
  entry.input("position_ids", ids());
  if (forced) entry.input("forced_experts", i32({"batch", moe_layers, "tokens", num_experts_per_tok}));
  rotary_table(entry, config, layout, rotary_dim);
  std::string x =
      entry.op("embedding", "x_0", {value("input_ids"), BlockBuilder::model_weight(std::string(kEmbedding))},
               {}, "model.embed_tokens");
  if (moe_layers > 0 && !forced)
    entry.op("fill_like", "free_choice", {value("input_ids")}, no_experts(num_experts_per_tok));
  int64_t routed = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    std::string choice = "free_choice";
    if (forced && layers[i].routed)
      choice = entry.op("select", fmt::format("forced_{}", routed), {value("forced_experts")},
                        {{"axis", int64_t{1}}, {"index", routed++}});
    x = call_layer(entry, layers[i], i, fmt::format("x_{}", i + 1), x, choice);
  }
  x = entry.op("rms_norm", "final", {value(x), BlockBuilder::model_weight("model.norm.weight")},
               {{"epsilon", config.rms_norm_eps}}, "model.norm");
  const std::string table(config.tie_word_embeddings ? kEmbedding : kHead);
  return entry.finish({head(entry, layout, "lm_head", table, table, x)});
}

Block layer_entry(const DecoderConfig& config, const Layout& layout, uint64_t rotary_dim,
                  const LayerCall& layer, size_t index, uint64_t num_experts_per_tok) {
  BlockBuilder entry(fmt::format("layer_{}", index));
  const std::string x =
      entry.input("hidden_states", {layout.compute, {"batch", "tokens", config.hidden_size}});
  entry.input("attention_mask", ids());
  entry.input("position_ids", ids());
  return entry.finish({call_single_layer(entry, config, layout, rotary_dim, layer, index, num_experts_per_tok,
                                         "attention_mask", x, "hidden_states_out")});
}

}  // namespace

DecoderConfig read_decoder(ConfigReader& config) {
  DecoderConfig decoder;
  decoder.vocab_size = config.size("vocab_size", 1, kMaxVocab);
  decoder.hidden_size = config.size("hidden_size", 1, kMaxWidth);
  decoder.num_hidden_layers = config.size("num_hidden_layers", 1, kMaxLayers);
  decoder.max_position_embeddings = config.size("max_position_embeddings", 1, kMaxPositions);
  decoder.rms_norm_eps = config.number("rms_norm_eps");
  if (!(decoder.rms_norm_eps > 0))
    config.problem("rms_norm_eps", fmt::format("is {}, expected a number above 0", decoder.rms_norm_eps));
  decoder.tie_word_embeddings =
      config.boolean_or("tie_word_embeddings", false);  // LlamaConfig's and DeepseekV3Config's default
  const std::string hidden_act = config.text_or("hidden_act", "silu");  // the default of both classes
  if (const Activation* activation = published_activation(hidden_act))
    decoder.hidden_act = activation->name;
  else
    config.problem("hidden_act",
                   fmt::format("is \"{}\", expected one of {}", hidden_act, published_activations()));
  decoder.rotary = read_rotary(config, decoder.max_position_embeddings);
  return decoder;
}

void fill_model(ConfigReader& config, const DecoderConfig& decoder, Model& model) {
  model.vocab_size = decoder.vocab_size;
  model.hidden_size = decoder.hidden_size;
  model.num_hidden_layers = decoder.num_hidden_layers;
  model.max_position_embeddings = decoder.max_position_embeddings;
  model.scaling_boundaries = decoder.rotary.boundaries;
  model.dynamic_rope = decoder.rotary.type == "dynamic";
  const std::string old_spelling = config.text_or("torch_dtype", "float32");
  const std::string dtype = config.text_or("dtype", old_spelling);
  if (const auto known = dtype_named(dtype))
    model.dtype = *known;
  else
    config.problem("torch_dtype", fmt::format("is \"{}\", expected float32, bfloat16 or float16", dtype));
  model.eos_token_ids = config.ids("eos_token_id");
}

Status count_parameters(Model& model) {
  constexpr uint64_t kMaxParameters = 1ull << 58;  // of one row; sums of rows then have 64 bits
  uint64_t tensors = 0;
  model.parameters = model.active_parameters = model.carried_parameters = 0;
  for (const RuleRow& row : model.rules.rows) {
    uint64_t repeats = 1, experts = 1;
    for (const auto& [hole, range] : row.holes)
      (hole == "expert" ? experts : repeats) *= range.end - range.begin;
    tensors += repeats * experts;
    if (tensors > kMaxTensors)
      return invalid("C1", "layers and experts make more than {} tensors", kMaxTensors).at("config.json");
    if (!row.tied_to.empty() || !row.ignore.empty()) continue;
    TANDEM_TRY(const uint64_t size, element_count(row.sizes));
    const auto all = checked_mul(size, repeats * experts);
    if (!all || *all > kMaxParameters)
      return invalid("C1", "{} has more than 2^58 parameters", row.hf).at("config.json");
    if (!row.in_graph) {
      model.carried_parameters += *all;
      continue;
    }
    model.parameters += *all;
    model.active_parameters += size * repeats * (experts > 1 ? model.num_experts_per_tok : 1);
  }
  return {};
}

std::vector<RuleRow> decoder_rows(const DecoderConfig& config) {
  const std::vector<std::string> table{"vocab_size", "hidden_size"};
  const Shape table_sizes{config.vocab_size, config.hidden_size};
  std::vector<RuleRow> rows;
  rows.push_back(plain_row(std::string(kEmbedding), table, table_sizes));
  rows.push_back(plain_row("model.norm.weight", {"hidden_size"}, {config.hidden_size}));
  if (config.tie_word_embeddings) {
    RuleRow head = plain_row(std::string(kHead), table, table_sizes);
    head.tied_to = kEmbedding;
    head.optional = true;
    rows.push_back(std::move(head));
  } else {
    rows.push_back(dense_row(std::string(kHead), table, table_sizes));
  }
  return rows;
}

std::vector<Block> decoder_entries(const DecoderConfig& config, const Layout& layout, uint64_t rotary_dim,
                                   const std::vector<LayerCall>& layers, uint64_t num_experts_per_tok) {
  uint64_t moe_layers = 0;
  for (const LayerCall& layer : layers) moe_layers += layer.routed;
  std::vector<Block> entries;
  entries.push_back(logits_entry(config, layout, rotary_dim, layers, num_experts_per_tok, moe_layers, false));
  if (moe_layers > 0)
    entries.push_back(
        logits_entry(config, layout, rotary_dim, layers, num_experts_per_tok, moe_layers, true));
  for (size_t i = 0; i < layers.size(); ++i)
    entries.push_back(layer_entry(config, layout, rotary_dim, layers[i], i, num_experts_per_tok));
  return entries;
}

std::string call_single_layer(BlockBuilder& entry, const DecoderConfig& config, const Layout& layout,
                              uint64_t rotary_dim, const LayerCall& layer, size_t index,
                              uint64_t num_experts_per_tok, const std::string& ids, const std::string& x,
                              std::string output) {
  rotary_table(entry, config, layout, rotary_dim);
  if (layer.routed) entry.op("fill_like", "free_choice", {value(ids)}, no_experts(num_experts_per_tok));
  return call_layer(entry, layer, index, std::move(output), x, "free_choice");
}

std::string head(BlockBuilder& entry, const Layout& layout, const std::string& module,
                 const std::string& weight, const std::string& hf_pattern, const std::string& x) {
  const bool narrow = layout.compute != DType::f32;
  const std::string logits =
      entry.op("linear", narrow ? "head" : "logits", {value(x), BlockBuilder::model_weight(weight)},
               {{"layout", layout.of(hf_pattern)}}, module);
  return narrow ? entry.op("cast", "logits", {value(logits)}, {{"dtype", std::string("f32")}}) : logits;
}

LayerInputs layer_inputs(BlockBuilder& block, const Layout& layout, uint64_t hidden_size,
                         uint64_t rotary_dim) {
  const TensorType angles{layout.compute, {"batch", "tokens", rotary_dim}};
  return {block.input("hidden_states", {layout.compute, {"batch", "tokens", hidden_size}}),
          block.input("attention_mask", ids()), block.input("cos", angles), block.input("sin", angles)};
}

}  // namespace tandem
