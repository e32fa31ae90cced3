#include "verify/verify.h"

#include <algorithm>

#include "base/signals.h"
#include "contract/text.h"
#include "verify/side_contract.h"
#include "verify/text_prompts.h"

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

/// Both sides, running, and what every level that runs them needs to know.
struct Running {
  std::unique_ptr<Engine> left, right;
  bool right_is_reference = false;
  bool reference_is_hf = false;
  Engine* tokenizer = nullptr;  ///< the hf engine that takes part, if one does
  Model model;
  DType lowest = DType::f32;
  std::unique_ptr<Engine> exact;  ///< the contract in float64; null where it cannot be had, or is not wanted

  Engine& reference() const { return right_is_reference ? *right : *left; }
  Engine& other() const { return right_is_reference ? *left : *right; }
};

Result<Running> start_both(const Side& left, const Side& right, DType lowest_storage, Model model,
                           const VerifyOptions& options) {
  TANDEM_TRY(const EngineKind left_kind, engine_of(left));
  TANDEM_TRY(const EngineKind right_kind, engine_of(right));
  Running running;
  TANDEM_TRY(running.left, Engine::start(left_kind, left.opened.path, options.engine));
  TANDEM_TRY(running.right, Engine::start(right_kind, right.opened.path, options.engine));
  running.right_is_reference = right_kind == EngineKind::hf && left_kind != EngineKind::hf;
  running.reference_is_hf = left_kind == EngineKind::hf || running.right_is_reference;
  if (running.reference_is_hf) running.tokenizer = &running.reference();
  running.model = std::move(model);
  running.lowest = lower_of(lower_of(compute_of(left), compute_of(right)), lowest_storage);
  return running;
}

ModelLevelOptions model_options(const Running& running, const VerifyOptions& options) {
  ModelLevelOptions level;
  level.lowest = running.lowest;
  level.atol = options.atol;
  level.moe_layers = running.model.moe_layers;
  level.num_experts_per_tok = running.model.num_experts_per_tok;
  level.reference_has_margins = running.reference_is_hf;
  return level;
}

/// The long text as a probe, or why there is none.
Status add_text_probe(const Running& running, std::vector<Probe>& probes, std::vector<std::string>& skipped) {
  TANDEM_TRY(TextIds text,
             encode_texts(running.tokenizer, std::span(&kLongText, 1), running.model.vocab_size));
  if (!text.skipped.empty()) {
    skipped.push_back("text probe: " + text.skipped);
    return {};
  }
  std::vector<int32_t>& ids = text.rows.front();
  ids.resize(std::min<size_t>(ids.size(), kLongTokens));
  probes.push_back(make_probe("text", {ids}, Padding::right));
  return {};
}

Status model_level(const Running& running, std::vector<Probe> probes, const VerifyOptions& options,
                   VerifyReport& report) {
  std::vector<std::string> skipped;
  if (options.tokens_file.empty()) {
    TANDEM_CHECK(add_text_probe(running, probes, skipped));
  }
  report.basis.prompts.push_back(prompt_set("model", probes, options.tokens_file, kProbeSeed));
  ModelLevelOptions level = model_options(running, options);
  level.start_exact = [&]() -> Result<Engine*> { return running.exact.get(); };
  auto compared = compare_models(running.reference(), running.other(), probes, level);
  if (!compared.ok() && compared.error().kind != ErrorKind::not_equal) return std::move(compared).error();
  report.model = compared.ok() ? std::move(compared).value() : not_comparable(compared.error());
  report.model->skipped = std::move(skipped);
  return {};
}

/// The user's own lines, or random ids and, where there is a tokenizer, texts.
Result<std::vector<Prompt>> prompts_for(const Running& running, const std::vector<Probe>& lines,
                                        const VerifyOptions& options, std::vector<std::string>& skipped) {
  std::vector<Prompt> prompts;
  const auto add = [&](std::string_view kind, std::vector<std::vector<int32_t>> rows) {
    for (size_t i = 0; i < rows.size(); ++i)
      prompts.push_back({fmt::format("{} {}", kind, i + 1), std::move(rows[i])});
  };
  if (!options.tokens_file.empty()) {
    for (const Probe& line : lines)
      if (line.batch == 1) prompts.push_back({line.name, line.input_ids});
    return prompts;
  }
  add("random ids", random_prompts(running.model.vocab_size, options.random_prompts));
  TANDEM_TRY(TextIds texts, encode_texts(running.tokenizer, kShortTexts, running.model.vocab_size));
  if (!texts.skipped.empty()) skipped.push_back("text prompts: " + texts.skipped);
  add("text", std::move(texts.rows));
  return prompts;
}

/// Prompts as probes, for their hash.
std::vector<Probe> probes_of(const std::vector<Prompt>& prompts) {
  std::vector<Probe> probes;
  for (const Prompt& prompt : prompts)
    probes.push_back(make_probe(prompt.name, {prompt.ids}, Padding::right));
  return probes;
}

/// The engine that makes text of ids; null where none can, for a reason that is added.
Engine* decoder(const Running& running, std::vector<std::string>& skipped) {
  if (running.tokenizer == nullptr) {
    skipped.push_back("BLEU: no hf engine takes part, whose tokenizer makes text of ids");
    return nullptr;
  }
  const Result<std::string> text = running.tokenizer->decode({});
  if (text.ok()) return running.tokenizer;
  skipped.push_back("BLEU: " + text.error().text);
  return nullptr;
}

Status generation_level(const Running& running, const std::vector<Probe>& lines, const VerifyOptions& options,
                        VerifyReport& report) {
  std::vector<std::string> skipped;
  TANDEM_TRY(const std::vector<Prompt> prompts, prompts_for(running, lines, options, skipped));
  report.basis.prompts.push_back(
      prompt_set("generation", probes_of(prompts), options.tokens_file, kPromptSeed));
  GenerationOptions level;
  level.max_new_tokens = options.max_new_tokens;
  level.vocab_size = running.model.vocab_size;
  level.model = model_options(running, options);
  level.tokenizer = decoder(running, skipped);
  level.stop = []() -> Status {
    if (interrupted()) return unavailable("", "stopped by a signal");
    return {};
  };
  auto compared = compare_generation(running.reference(), running.other(), prompts, level);
  if (!compared.ok() && compared.error().kind != ErrorKind::not_equal) return std::move(compared).error();
  report.generation = compared.ok() ? std::move(compared).value() : GenerationLevel();
  if (!compared.ok()) report.generation->failures.push_back(compared.error().text);
  report.generation->skipped.insert(report.generation->skipped.begin(), skipped.begin(), skipped.end());
  return {};
}

/// PyTorch running the reference's contract; null, with a note, where it is not installed.
Result<std::unique_ptr<Engine>> start_contract(const Side& side, const std::string& dtype,
                                               const VerifyOptions& options, VerifyReport& report) {
  EngineOptions engine_options = options.engine;
  engine_options.dtype = dtype;
  auto engine = Engine::start(EngineKind::torch, side.opened.path, engine_options);
  if (engine.ok() || engine.error().kind != ErrorKind::unavailable) return engine;
  report.notes.push_back(fmt::format("the contract was not run in {}: {}", dtype, engine.error().text));
  return std::unique_ptr<Engine>();
}

constexpr uint64_t kLayerTokens = 256;  ///< of a probe that every layer is run on

/// The probes of the layer level: the short ones; and of the module level: those and the longest.
struct InnerProbes {
  std::vector<Probe> layer, module;
};
InnerProbes inner_probes(const std::vector<Probe>& probes) {
  InnerProbes inner;
  const Probe* longest = nullptr;
  for (const Probe& probe : probes) {
    if (probe.batch * probe.tokens <= kLayerTokens) inner.layer.push_back(probe);
    if (!longest || probe.tokens > longest->tokens) longest = &probe;
  }
  if (inner.layer.empty() && longest) inner.layer.push_back(*longest);
  inner.module = inner.layer;
  if (longest && longest->tokens > kLayerTokens) inner.module.push_back(*longest);
  return inner;
}

/// The levels between weights and model, and where they part.
Status inner_levels(const Running& running, const Side& reference, const std::vector<Probe>& probes,
                    const VerifyOptions& options, VerifyReport& report) {
  TANDEM_TRY(const auto contract, SideContract::open(reference, {options.accepted_keys}));
  TANDEM_TRY(const LayerStack stack, layer_stack_of(contract->contract()));
  Sides sides;
  sides.reference = &running.reference();
  sides.other = &running.other();
  // Rounded weights or narrow arithmetic are no matter of float32's error: there the fixed bars stand.
  sides.exact = running.lowest == DType::f32 ? running.exact.get() : nullptr;
  sides.reference_is_left = !running.right_is_reference;
  sides.contract = &contract->contract();
  sides.stack = &stack;
  sides.tolerance = tolerance_of(running.lowest);
  const InnerProbes inner = inner_probes(probes);
  if (options.layer) {
    TANDEM_TRY(report.layer, compare_layers(sides, inner.layer));
    report.basis.prompts.push_back(prompt_set("layer", inner.layer, options.tokens_file, kProbeSeed));
  }
  if (options.module) {
    TANDEM_TRY(report.module, compare_modules(sides, inner.module));
    report.basis.prompts.push_back(prompt_set("module", inner.module, options.tokens_file, kProbeSeed));
  }
  const bool failed =
      (report.layer && !report.layer->passed()) || (report.module && !report.module->passed());
  if (!failed || !sides.exact) return {};
  TANDEM_TRY(const auto float32, start_contract(reference, "float32", options, report));
  const DiagnosisInputs inputs{float32.get(), contract->faults(),
                               [&](const std::string& name) { return contract->weight(name); }};
  auto divergence = diagnose(sides, inner.module, report.layer ? &*report.layer : nullptr,
                             report.module ? &*report.module : nullptr, inputs);
  if (!divergence.ok() && divergence.error().kind != ErrorKind::invalid) return std::move(divergence).error();
  if (divergence.ok())
    report.divergence = std::move(divergence).value();
  else
    report.notes.push_back("the cause was not searched for: " + divergence.error().text);
  return {};
}

/// The levels that run both sides.
Status run_levels(const FileSystem& files, const Side& left, const Side& right, DType lowest_storage,
                  const VerifyOptions& options, VerifyReport& report) {
  TANDEM_TRY(Model model, model_of_both(left, right, options));
  TANDEM_TRY(const std::vector<Probe> probes, probes_for(files, model, options));
  TANDEM_TRY(Running running, start_both(left, right, lowest_storage, std::move(model), options));
  const Side& reference = running.right_is_reference ? right : left;
  if (options.float64) {
    TANDEM_TRY(running.exact, start_contract(reference, "float64", options, report));
  }
  report.float64 = running.exact != nullptr;
  report.left = running.left->info();
  report.right = running.right->info();
  report.reference = running.right_is_reference ? "right" : "left";
  if (options.layer || options.module) {
    const Status inner = inner_levels(running, reference, probes, options, report);
    if (!inner.ok() && inner.error().kind != ErrorKind::unsupported) return inner;
    if (!inner.ok()) report.notes.push_back("layers and modules were not compared: " + inner.error().text);
  }
  if (options.model) {
    TANDEM_CHECK(model_level(running, probes, options, report));
  }
  if (options.generation) {
    TANDEM_CHECK(generation_level(running, probes, options, report));
  }
  return {};
}

EngineInfo plain_info(const Side& side) {
  return {{"format", std::string(name(side.opened.format))}, {"path", side.opened.path}};
}

}  // namespace

bool VerifyReport::equal() const {
  std::vector<bool> passed;
  if (weights) passed.push_back(weights->passed());
  if (layer) passed.push_back(layer->passed());
  if (module) passed.push_back(module->passed());
  if (model) passed.push_back(model->passed());
  if (generation) passed.push_back(generation->passed());
  return !passed.empty() && std::find(passed.begin(), passed.end(), false) == passed.end();
}

Verdict VerifyReport::verdict() const {
  Verdict worst = equal() ? Verdict::equal : Verdict::different;
  const auto look = [&](const std::vector<TapResult>& taps) {
    for (const TapResult& tap : taps) worst = std::max(worst, tap.verdict);
  };
  if (layer)
    for (const LayerResult& result : layer->layers) look(result.taps);
  if (module) look(module->taps);
  return worst;
}

Json to_json(const VerifyReport& report) {
  Json levels = Json::object();
  if (report.weights) levels["weights"] = to_json(*report.weights);
  if (report.layer) levels["layer"] = to_json(*report.layer);
  if (report.module) levels["module"] = to_json(*report.module);
  if (report.model) levels["model"] = to_json(*report.model);
  if (report.generation) levels["generation"] = to_json(*report.generation);
  return Json{{"equal", report.equal()},
              {"verdict", name(report.verdict())},
              {"float64", report.float64},
              {"divergence", report.divergence ? to_json(*report.divergence) : Json(nullptr)},
              {"notes", report.notes},
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
  // The others need it too: it says whether one side's weights are rounded.
  TANDEM_TRY(WeightsLevel weights, weights_level(*left, *right, options));
  report.basis.left_rules_sha256 = rules_sha256(left->rules);
  report.basis.right_rules_sha256 = rules_sha256(right->rules);
  if (options.layer || options.module || options.model || options.generation) {
    TANDEM_CHECK(run_levels(files, *left, *right, weights.narrowest.value_or(DType::f32), options, report));
  }
  if (options.weights) report.weights = std::move(weights);
  return report;
}

}  // namespace tandem
