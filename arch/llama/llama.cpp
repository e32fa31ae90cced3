#include "arch/llama/llama.h"

#include <cmath>

#include "arch/blocks/decoder.h"

namespace tandem {
namespace {

constexpr std::string_view kLayer = "model.layers.{layer}.";

struct LlamaConfig {
  DecoderConfig decoder;
  uint64_t intermediate_size = 0;    ///< width of gate_proj and up_proj
  uint64_t num_attention_heads = 0;  ///< query heads
  uint64_t num_key_value_heads =
      0;  ///< key and value heads; each serves num_attention_heads / num_key_value_heads query heads
  uint64_t head_dim = 0;        ///< width of one head
  bool attention_bias = false;  ///< biases on q_proj, k_proj, v_proj and o_proj
  bool mlp_bias = false;        ///< biases on gate_proj, up_proj and down_proj
};

LlamaConfig read(ConfigReader& config) {
  LlamaConfig c;
  c.decoder = read_decoder(config);
  c.intermediate_size = config.size("intermediate_size", 1, kMaxWidth);
  c.num_attention_heads = config.size("num_attention_heads", 1, kMaxHeads);
  c.num_key_value_heads = config.size_or("num_key_value_heads", c.num_attention_heads, 1, kMaxHeads);
  if (c.num_attention_heads % c.num_key_value_heads != 0)
    config.problem("num_key_value_heads", fmt::format("is {}, expected a divisor of num_attention_heads = {}",
                                                      c.num_key_value_heads, c.num_attention_heads));
  const bool explicit_head = config.has("head_dim");
  if (!explicit_head && c.decoder.hidden_size % c.num_attention_heads != 0)
    config.problem("num_attention_heads", fmt::format("is {}, expected a divisor of hidden_size = {}",
                                                      c.num_attention_heads, c.decoder.hidden_size));
  c.head_dim =
      explicit_head ? config.size("head_dim", 2, kMaxWidth) : c.decoder.hidden_size / c.num_attention_heads;
  expect_rotary_dim(config, "head_dim", c.head_dim, c.decoder.rotary);
  c.attention_bias = config.boolean_or("attention_bias", false);
  c.mlp_bias = config.boolean_or("mlp_bias", false);
  config.mark_read(
      "rope_interleaved");  // written by some exporters as false; true would be another convention
  if (config.boolean_or("rope_interleaved", false))
    config.problem("rope_interleaved", "is true, expected false: llama rotates halves");
  return c;
}

/// A row of every layer, and its bias row.
void add_dense(std::vector<RuleRow>& rows, const LlamaConfig& c, const std::string& module,
               std::vector<std::string> words, Shape sizes, bool bias) {
  const std::string path = std::string(kLayer) + module;
  const std::map<std::string, HoleRange> layers{{"layer", {0, c.decoder.num_hidden_layers}}};
  RuleRow weight = dense_row(path + ".weight", words, sizes);
  weight.holes = layers;
  rows.push_back(std::move(weight));
  if (!bias) return;
  RuleRow row = plain_row(path + ".bias", {words[0]}, {sizes[0]});
  row.holes = layers;
  rows.push_back(std::move(row));
}

void add_vector(std::vector<RuleRow>& rows, const LlamaConfig& c, const std::string& module,
                const std::string& word, uint64_t size) {
  RuleRow row = plain_row(std::string(kLayer) + module + ".weight", {word}, {size});
  row.holes = {{"layer", {0, c.decoder.num_hidden_layers}}};
  rows.push_back(std::move(row));
}

RuleTable rules(const LlamaConfig& c) {
  RuleTable table{"llama", decoder_rows(c.decoder)};
  std::vector<RuleRow>& rows = table.rows;
  const uint64_t hidden = c.decoder.hidden_size;
  const uint64_t q = c.num_attention_heads * c.head_dim, kv = c.num_key_value_heads * c.head_dim;
  add_vector(rows, c, "input_layernorm", "hidden_size", hidden);
  add_vector(rows, c, "post_attention_layernorm", "hidden_size", hidden);
  add_dense(rows, c, "self_attn.q_proj", {"num_attention_heads*head_dim", "hidden_size"}, {q, hidden},
            c.attention_bias);
  add_dense(rows, c, "self_attn.k_proj", {"num_key_value_heads*head_dim", "hidden_size"}, {kv, hidden},
            c.attention_bias);
  add_dense(rows, c, "self_attn.v_proj", {"num_key_value_heads*head_dim", "hidden_size"}, {kv, hidden},
            c.attention_bias);
  add_dense(rows, c, "self_attn.o_proj", {"hidden_size", "num_attention_heads*head_dim"}, {hidden, q},
            c.attention_bias);
  add_dense(rows, c, "mlp.gate_proj", {"intermediate_size", "hidden_size"}, {c.intermediate_size, hidden},
            c.mlp_bias);
  add_dense(rows, c, "mlp.up_proj", {"intermediate_size", "hidden_size"}, {c.intermediate_size, hidden},
            c.mlp_bias);
  add_dense(rows, c, "mlp.down_proj", {"hidden_size", "intermediate_size"}, {hidden, c.intermediate_size},
            c.mlp_bias);
  RuleRow buffer =
      plain_row(std::string(kLayer) + "self_attn.rotary_emb.inv_freq", {"head_dim/2"}, {c.head_dim / 2});
  buffer.holes = {{"layer", {0, c.decoder.num_hidden_layers}}};
  buffer.optional = true;
  buffer.ignore = "rotary frequencies are made from the config";
  rows.push_back(std::move(buffer));
  return table;
}

Block decoder_layer(const LlamaConfig& c, const Layout& layout) {
  BlockBuilder b("decoder_layer");
  const uint64_t hidden = c.decoder.hidden_size, q_width = c.num_attention_heads * c.head_dim,
                 kv_width = c.num_key_value_heads * c.head_dim;
  const double epsilon = c.decoder.rms_norm_eps;
  const LayerInputs in = layer_inputs(b, layout, hidden, c.head_dim);
  const auto heads = [&](const std::string& name, const std::string& x, uint64_t count) {
    return b.op("split_heads", name, {value(x)}, {{"heads", static_cast<int64_t>(count)}});
  };
  const auto rotate = [&](const std::string& name, const std::string& x) {
    return b.op("rotary", name, {value(x), value(in.cos), value(in.sin)}, {{"interleaved", false}});
  };

  const std::string h =
      norm(b, layout, "input_layernorm", "h", in.hidden_states, hidden, epsilon);  // [batch, tokens, hidden]
  const std::string q = heads(
      "q_heads", linear(b, layout, kLayer, "self_attn.q_proj", "q", h, hidden, q_width, c.attention_bias),
      c.num_attention_heads);
  const std::string k = heads(
      "k_heads", linear(b, layout, kLayer, "self_attn.k_proj", "k", h, hidden, kv_width, c.attention_bias),
      c.num_key_value_heads);
  const std::string v = heads(
      "v_heads", linear(b, layout, kLayer, "self_attn.v_proj", "v", h, hidden, kv_width, c.attention_bias),
      c.num_key_value_heads);
  const std::string attended =
      b.op("attention", "attended",
           {value(rotate("q_rotated", q)), value(rotate("k_rotated", k)), value(v), value(in.attention_mask)},
           {{"scale", 1.0 / std::sqrt(static_cast<double>(c.head_dim))}});
  const std::string merged = b.op("merge_heads", "merged", {value(attended)});
  const std::string a =
      linear(b, layout, kLayer, "self_attn.o_proj", "a", merged, q_width, hidden, c.attention_bias);
  const std::string y = b.op("add", "y", {value(in.hidden_states), value(a)});
  const std::string g = norm(b, layout, "post_attention_layernorm", "g", y, hidden, epsilon);
  const std::string m = gated_mlp(b, layout, kLayer, "mlp", "m", g, hidden, c.intermediate_size, c.mlp_bias,
                                  c.decoder.hidden_act);
  return b.finish({b.op("add", "out", {value(y), value(m)})});
}

Result<Contract> contract(const LlamaConfig& c, const RuleTable& table, DType compute,
                          const std::function<DType(const std::string&)>& storage) {
  const Layout layout{table, compute};
  Contract contract;
  contract.compute = compute;
  contract.weights = weight_entries(table, storage);
  contract.blocks.push_back(decoder_layer(c, layout));
  contract.entries =
      decoder_entries(c.decoder, layout, c.head_dim,
                      std::vector<LayerCall>(c.decoder.num_hidden_layers, {"decoder_layer"}), 0);
  return contract;
}

}  // namespace

Result<Model> make_llama(const Json& json, const ArchOptions& options) {
  ConfigReader config(json, "");
  const LlamaConfig c = read(config);
  Model model;
  model.architecture = "llama";
  fill_model(config, c.decoder, model);
  TANDEM_CHECK(config.finish(options.accepted_keys));
  model.rules = rules(c);
  TANDEM_CHECK(count_parameters(model));
  model.contract = [c](const RuleTable& table, DType compute,
                       const std::function<DType(const std::string&)>& storage) {
    return contract(c, table, compute, storage);
  };
  return model;
}

}  // namespace tandem
