#include "verify/verify.h"

#include <algorithm>

#include "base/signals.h"
#include "contract/text.h"

namespace tandem {
namespace {

Result<WeightsLevel> weights_level(Side& left, Side& right, const VerifyOptions& options) {
  TANDEM_CHECK(read_weights(left, right));
  TANDEM_CHECK(read_weights(right, left));
  TANDEM_TRY(const uint64_t left_bytes, total_bytes(left.weights));
  TANDEM_TRY(const uint64_t right_bytes, total_bytes(right.weights));
  return compare_weights(left.weights, right.weights, [&](uint64_t done) -> Status {
    if (interrupted()) return unavailable("", "stopped by a signal");
    if (options.progress) options.progress(done, left_bytes + right_bytes);
    return {};
  });
}

/// The arithmetic that a side's graph uses: a SavedModel's contract says, the others compute in float32.
DType compute_of(const Side& side) {
  const auto text = side.opened.side_files.find(std::string(kContractFile));
  if (text == side.opened.side_files.end()) return DType::f32;
  const Result<Contract> contract = parse_contract(text->second);
  return contract.ok() ? contract.value().compute : DType::f32;
}

DType lower_of(DType a, DType b) {
  if (a == DType::bf16 || b == DType::bf16) return DType::bf16;
  return a == DType::f16 || b == DType::f16 ? DType::f16 : DType::f32;
}

Result<EngineKind> engine_of(const Side& side) {
  auto engine = engine_for(side.opened.format, side.engine);
  if (!engine.ok()) return std::move(engine).error().at(side.opened.path);
  return engine;
}

/// What probes are made for; of two configs that differ, what both can run.
Result<Model> model_of_both(const Side& left, const Side& right, const VerifyOptions& options) {
  const Side& first = left.opened.config.is_null() ? right : left;
  TANDEM_TRY(Model model, model_of(first.opened, {options.accepted_keys}));
  if (&first == &right || right.opened.config.is_null()) return model;
  TANDEM_TRY(const Model other, model_of(right.opened, {options.accepted_keys}));
  model.vocab_size = std::min(model.vocab_size, other.vocab_size);
  model.max_position_embeddings = std::min(model.max_position_embeddings, other.max_position_embeddings);
  if (model.moe_layers != other.moe_layers || model.num_experts_per_tok != other.num_experts_per_tok)
    model.moe_layers = 0;
  return model;
}

/// Two models whose logits cannot be compared are different: a finding as any other.
ModelLevel not_comparable(const Error& error) {
  ModelLevel level;
  ProbeResult probe;
  probe.name = "logits";
  probe.failures.push_back(error.text);
  level.probes.push_back(std::move(probe));
  return level;
}

Result<std::vector<Probe>> probes_for(const FileSystem& files, const Model& model,
                                      const VerifyOptions& options) {
  if (options.tokens_file.empty()) return default_probes(model);
  TANDEM_TRY(const std::string text, read_text(files, options.tokens_file, 16'000'000));
  auto probes = probes_from_text(text, model.vocab_size);
  if (!probes.ok()) return std::move(probes).error().because("in " + options.tokens_file);
  return probes;
}

Status model_level(const FileSystem& files, const Side& left, const Side& right, DType lowest_storage,
                   const VerifyOptions& options, VerifyReport& report) {
  TANDEM_TRY(const EngineKind left_kind, engine_of(left));
  TANDEM_TRY(const EngineKind right_kind, engine_of(right));
  TANDEM_TRY(const Model model, model_of_both(left, right, options));
  TANDEM_TRY(const std::vector<Probe> probes, probes_for(files, model, options));
  TANDEM_TRY(const auto left_engine, Engine::start(left_kind, left.opened.path, options.engine));
  TANDEM_TRY(const auto right_engine, Engine::start(right_kind, right.opened.path, options.engine));
  const bool right_is_reference = right_kind == EngineKind::hf && left_kind != EngineKind::hf;
  Engine& reference = right_is_reference ? *right_engine : *left_engine;
  Engine& other = right_is_reference ? *left_engine : *right_engine;

  ModelLevelOptions level;
  level.lowest = lower_of(lower_of(compute_of(left), compute_of(right)), lowest_storage);
  level.atol = options.atol;
  level.moe_layers = model.moe_layers;
  level.num_experts_per_tok = model.num_experts_per_tok;
  level.reference_has_margins = left_kind == EngineKind::hf || right_is_reference;
  level.start_exact = [&]() -> Result<std::unique_ptr<Engine>> {
    EngineOptions exact = options.engine;
    exact.dtype = "float64";
    auto engine = Engine::start(EngineKind::torch, (right_is_reference ? right : left).opened.path, exact);
    if (!engine.ok() && engine.error().kind == ErrorKind::unavailable)
      return std::unique_ptr<Engine>();  // then the fixed bar stands
    return engine;
  };
  auto compared = compare_models(reference, other, probes, level);
  if (!compared.ok() && compared.error().kind != ErrorKind::not_equal) return std::move(compared).error();
  report.model = compared.ok() ? std::move(compared).value() : not_comparable(compared.error());
  report.left = left_engine->info();
  report.right = right_engine->info();
  report.reference = right_is_reference ? "right" : "left";
  return {};
}

EngineInfo plain_info(const Side& side) {
  return {{"format", std::string(name(side.opened.format))}, {"path", side.opened.path}};
}

}  // namespace

Json to_json(const VerifyReport& report) {
  Json levels = Json::object();
  if (report.weights) levels["weights"] = to_json(*report.weights);
  if (report.model) levels["model"] = to_json(*report.model);
  return Json{{"equal", report.equal()},
              {"left", report.left},
              {"right", report.right},
              {"reference", report.reference},
              {"levels", std::move(levels)}};
}

Result<VerifyReport> verify(const FileSystem& files, const SideSpec& left_spec, const SideSpec& right_spec,
                            const VerifyOptions& options) {
  const ArchOptions arch{options.accepted_keys};
  TANDEM_TRY(const auto left, open_side(files, left_spec, arch, options.limits));
  TANDEM_TRY(const auto right, open_side(files, right_spec, arch, options.limits));
  VerifyReport report;
  report.left = plain_info(*left);
  report.right = plain_info(*right);
  // The model level needs it too: it says whether one side's weights are rounded.
  TANDEM_TRY(WeightsLevel weights, weights_level(*left, *right, options));
  if (options.model) {
    TANDEM_CHECK(model_level(files, *left, *right, weights.narrowest.value_or(DType::f32), options, report));
  }
  if (options.weights) report.weights = std::move(weights);
  return report;
}

}  // namespace tandem
