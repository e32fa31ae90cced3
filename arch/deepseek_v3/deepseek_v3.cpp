#include "arch/deepseek_v3/deepseek_v3.h"

#include "arch/deepseek_v3/config.h"

namespace tandem {
namespace {

Result<Contract> contract(const deepseek_v3::Config& c, const RuleTable& table, DType compute,
                          const std::function<DType(const std::string&)>& storage) {
  const Layout layout{table, compute};
  Contract contract;
  contract.compute = compute;
  contract.weights = weight_entries(table, storage);
  std::vector<LayerCall> layers;
  for (uint64_t i = 0; i < c.decoder.num_hidden_layers; ++i)
    layers.push_back(c.is_moe(i) ? LayerCall{"decoder_layer_moe", true}
                                 : LayerCall{"decoder_layer_dense", false});
  if (!layers.front().routed) contract.blocks.push_back(deepseek_v3::dense_layer(c, layout));
  const bool drafts = deepseek_v3::drafts(layout);
  if (layers.back().routed || drafts) contract.blocks.push_back(deepseek_v3::moe_layer(c, layout));
  contract.entries = decoder_entries(c.decoder, layout, c.qk_rope_head_dim, layers, c.num_experts_per_tok);
  if (drafts) contract.entries.push_back(deepseek_v3::draft_entry(c, layout));
  return contract;
}

}  // namespace

Result<Model> make_deepseek_v3(const Json& json, const ArchOptions& options) {
  ConfigReader config(json, "");
  const deepseek_v3::Config c = deepseek_v3::read(config);
  Model model;
  model.architecture = "deepseek_v3";
  fill_model(config, c.decoder, model);
  TANDEM_CHECK(config.finish(options.accepted_keys));
  model.moe_layers = c.moe_layers();
  model.num_experts_per_tok = c.num_experts_per_tok;
  model.rules = deepseek_v3::rules(c, options.with_mtp);
  TANDEM_CHECK(count_parameters(model));
  model.contract = [c](const RuleTable& table, DType compute,
                       const std::function<DType(const std::string&)>& storage) {
    return contract(c, table, compute, storage);
  };
  return model;
}

}  // namespace tandem
