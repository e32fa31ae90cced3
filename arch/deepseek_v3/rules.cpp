#include "arch/deepseek_v3/config.h"

namespace tandem::deepseek_v3 {
namespace {

constexpr uint64_t kMaxElements = (1ull << 31) - 1;  // several TensorFlow kernels index with 32 bits

/// Layers [begin, end) that all have the same rows. Carried layers (multi-token prediction) are not in the
/// graph.
struct LayerRange {
  uint64_t begin, end;
  bool carried;
};

/// The largest divisor of `experts` whose stack of kernels stays below 2^31 elements; 1 if even one kernel
/// does not.
uint64_t stack_chunk(uint64_t experts, uint64_t kernel_elements) {
  for (uint64_t chunk = experts; chunk > 1; --chunk)
    if (experts % chunk == 0 && chunk * kernel_elements <= kMaxElements) return chunk;
  return 1;
}

class Rows {
 public:
  Rows(const Config& config, std::vector<RuleRow>& rows) : c_(config), rows_(rows) {}

  void dense(const LayerRange& range, const std::string& module, std::vector<std::string> words, Shape sizes,
             bool bias = false) {
    add(range, quantisable(dense_row(path(module) + ".weight", words, sizes)));
    if (bias) add(range, plain_row(path(module) + ".bias", {words[0]}, {sizes[0]}));
  }
  void plain(const LayerRange& range, const std::string& module, std::vector<std::string> words,
             Shape sizes) {
    add(range, plain_row(path(module) + ".weight", std::move(words), std::move(sizes)));
  }
  void experts(const LayerRange& range, const std::string& module, std::vector<std::string> words,
               Shape sizes) {
    RuleRow row =
        quantisable(dense_row(path("mlp.experts.{expert}." + module) + ".weight", std::move(words), sizes));
    row.tf = "model/layers/{layer}/mlp/experts/" + module + "/kernel";
    row.holes["expert"] = {0, c_.n_routed_experts};
    row.steps.push_back(Stack{"expert", stack_chunk(c_.n_routed_experts, sizes[0] * sizes[1])});
    add(range, std::move(row));
  }
  /// The router: a kernel that is used in float32, and the bias that only chooses.
  void router(const LayerRange& range) {
    add(range, dense_row(path("mlp.gate") + ".weight", {"n_routed_experts", "hidden_size"},
                         {c_.n_routed_experts, c_.decoder.hidden_size}));
    RuleRow bias =
        plain_row(path("mlp.gate") + ".e_score_correction_bias", {"n_routed_experts"}, {c_.n_routed_experts});
    bias.dtype = "f32";
    bias.trainable = false;
    add(range, std::move(bias));
  }

 private:
  static std::string path(const std::string& module) { return "model.layers.{layer}." + module; }
  RuleRow quantisable(RuleRow row) const {
    if (c_.fp8_block_rows > 0)
      row.steps.insert(row.steps.begin(),
                       BlockDequantize{c_.fp8_block_rows, c_.fp8_block_columns, "_scale_inv"});
    return row;
  }
  void add(const LayerRange& range, RuleRow row) {
    row.holes["layer"] = {range.begin, range.end};
    row.in_graph = !range.carried;
    row.optional =
        range
            .carried;  // transformers drops these layers when it saves, and leaves their number in the config
    rows_.push_back(std::move(row));
  }

  const Config& c_;
  std::vector<RuleRow>& rows_;
};

void attention_rows(Rows& rows, const Config& c, const LayerRange& range) {
  const uint64_t hidden = c.decoder.hidden_size, heads = c.num_attention_heads;
  rows.plain(range, "input_layernorm", {"hidden_size"}, {hidden});
  rows.plain(range, "post_attention_layernorm", {"hidden_size"}, {hidden});
  const std::string q_rows = "num_attention_heads*(qk_nope_head_dim+qk_rope_head_dim)";
  if (c.q_lora_rank > 0) {
    rows.dense(range, "self_attn.q_a_proj", {"q_lora_rank", "hidden_size"}, {c.q_lora_rank, hidden},
               c.attention_bias);
    rows.plain(range, "self_attn.q_a_layernorm", {"q_lora_rank"}, {c.q_lora_rank});
    rows.dense(range, "self_attn.q_b_proj", {q_rows, "q_lora_rank"},
               {heads * c.qk_head_dim(), c.q_lora_rank});
  } else {
    rows.dense(range, "self_attn.q_proj", {q_rows, "hidden_size"}, {heads * c.qk_head_dim(), hidden});
  }
  rows.dense(range, "self_attn.kv_a_proj_with_mqa", {"kv_lora_rank+qk_rope_head_dim", "hidden_size"},
             {c.kv_lora_rank + c.qk_rope_head_dim, hidden}, c.attention_bias);
  rows.plain(range, "self_attn.kv_a_layernorm", {"kv_lora_rank"}, {c.kv_lora_rank});
  rows.dense(range, "self_attn.kv_b_proj",
             {"num_attention_heads*(qk_nope_head_dim+v_head_dim)", "kv_lora_rank"},
             {heads * (c.qk_nope_head_dim + c.v_head_dim), c.kv_lora_rank});
  rows.dense(range, "self_attn.o_proj", {"hidden_size", "num_attention_heads*v_head_dim"},
             {hidden, heads * c.v_head_dim}, c.attention_bias);
}

void mlp_rows(Rows& rows, const Config& c, const LayerRange& range, const std::string& module,
              const std::string& word, uint64_t width) {
  const uint64_t hidden = c.decoder.hidden_size;
  rows.dense(range, module + ".gate_proj", {word, "hidden_size"}, {width, hidden});
  rows.dense(range, module + ".up_proj", {word, "hidden_size"}, {width, hidden});
  rows.dense(range, module + ".down_proj", {"hidden_size", word}, {hidden, width});
}

void moe_rows(Rows& rows, const Config& c, const LayerRange& range) {
  const uint64_t hidden = c.decoder.hidden_size, width = c.moe_intermediate_size;
  rows.router(range);
  rows.experts(range, "gate_proj", {"moe_intermediate_size", "hidden_size"}, {width, hidden});
  rows.experts(range, "up_proj", {"moe_intermediate_size", "hidden_size"}, {width, hidden});
  rows.experts(range, "down_proj", {"hidden_size", "moe_intermediate_size"}, {hidden, width});
  mlp_rows(rows, c, range, "mlp.shared_experts", "moe_intermediate_size*n_shared_experts",
           width * c.n_shared_experts);
}

void prediction_rows(Rows& rows, const Config& c, const LayerRange& range) {
  const uint64_t hidden = c.decoder.hidden_size, vocab = c.decoder.vocab_size;
  rows.plain(range, "embed_tokens", {"vocab_size", "hidden_size"}, {vocab, hidden});
  rows.plain(range, "enorm", {"hidden_size"}, {hidden});
  rows.plain(range, "hnorm", {"hidden_size"}, {hidden});
  rows.dense(range, "eh_proj", {"hidden_size", "2*hidden_size"}, {hidden, 2 * hidden});
  rows.plain(range, "shared_head.norm", {"hidden_size"}, {hidden});
  rows.dense(range, "shared_head.head", {"vocab_size", "hidden_size"}, {vocab, hidden});
}

}  // namespace

RuleTable rules(const Config& c, bool with_mtp) {
  RuleTable table{"deepseek_v3", decoder_rows(c.decoder)};
  Rows rows(c, table.rows);
  const uint64_t layers = c.decoder.num_hidden_layers, dense = layers - c.moe_layers();
  const LayerRange all{0, layers, false}, first{0, dense, false}, rest{dense, layers, false};
  attention_rows(rows, c, all);
  if (dense > 0) mlp_rows(rows, c, first, "mlp", "intermediate_size", c.intermediate_size);
  if (dense < layers) moe_rows(rows, c, rest);
  const uint64_t end = layers + c.num_nextn_predict_layers, run = with_mtp && end > layers ? 1 : 0;
  for (const LayerRange& range :
       {LayerRange{layers, layers + run, false}, LayerRange{layers + run, end, true}}) {
    if (range.begin == range.end) continue;
    prediction_rows(rows, c, range);
    attention_rows(rows, c, range);
    moe_rows(rows, c, range);
  }
  return table;
}

}  // namespace tandem::deepseek_v3
