// The first layer of multi-token prediction, as an entry.

#include "arch/deepseek_v3/config.h"

namespace tandem::deepseek_v3 {
namespace {

std::string pattern(const std::string& name) { return "model.layers.{layer}." + name + ".weight"; }

}  // namespace

bool drafts(const Layout& layout) {
  return std::ranges::any_of(layout.rules.rows, [](const RuleRow& row) {
    return row.hf == pattern("eh_proj") && row.in_graph && row.holes.contains("layer");
  });
}

Block draft_entry(const Config& c, const Layout& layout) {
  const uint64_t index = c.decoder.num_hidden_layers;
  const std::string place = fmt::format("model.layers.{}.", index);
  const auto weight = [&](const std::string& name) {
    return BlockBuilder::model_weight(place + name + ".weight");
  };
  BlockBuilder b("draft");
  const auto norm_of = [&](const std::string& name, const std::string& output, const std::string& x) {
    return b.op("rms_norm", output, {value(x), weight(name)}, {{"epsilon", c.decoder.rms_norm_eps}},
                place + name);
  };
  const TensorType ids = i32({"batch", "tokens"});
  b.input("hidden_states", {layout.compute, {"batch", "tokens", c.decoder.hidden_size}});
  for (const char* name : {"input_ids", "attention_mask", "position_ids"}) b.input(name, ids);
  b.op("embedding", "embedded", {value("input_ids"), weight("embed_tokens")}, {}, place + "embed_tokens");
  const std::string e = norm_of("enorm", "embedding_norm", "embedded");
  const std::string h = norm_of("hnorm", "hidden_norm", "hidden_states");
  const std::string both = b.op("concat", "both", {value(e), value(h)});  // the embedding's half first
  const std::string x = b.op("linear", "x", {value(both), weight("eh_proj")},
                             {{"layout", layout.of(pattern("eh_proj"))}}, place + "eh_proj");
  const std::string y =
      call_single_layer(b, c.decoder, layout, c.qk_rope_head_dim, {"decoder_layer_moe", true}, index,
                        c.num_experts_per_tok, "input_ids", x, "predicted");
  return b.finish({head(b, layout, place + "shared_head.head", place + "shared_head.head.weight",
                        pattern("shared_head.head"), norm_of("shared_head.norm", "final", y))});
}

}  // namespace tandem::deepseek_v3
