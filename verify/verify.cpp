#include "verify/verify.h"

#include <algorithm>
#include <future>
#include <utility>

#include "base/signals.h"
#include "verify/dump_side.h"
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

/// The arithmetic that a side's graph uses; a dump says it itself.
DType compute_of(const Side& side) { return side.dump ? side.dump->dtype() : compute_of(side.opened); }

DType lower_of(DType a, DType b) {
  if (a == DType::bf16 || b == DType::bf16) return DType::bf16;
  return a == DType::f16 || b == DType::f16 ? DType::f16 : DType::f32;
}

/// A side's model; null for a dump whose config is not there or not understood, which is a note.
Result<std::optional<Model>> model_of_side(const Side& side, const VerifyOptions& options,
                                           std::vector<std::string>& notes) {
  if (side.opened.config.is_null()) return std::optional<Model>();
  auto model = model_of(side.opened, {options.accepted_keys});
  if (model.ok()) return std::optional<Model>(std::move(model).value());
  if (!side.dump) return std::move(model).error();
  notes.push_back(fmt::format("the dump's config is not understood: {}", model.error().text));
  return std::optional<Model>();
}

/// What probes are made for; of two configs that differ, what both can run.
Result<Model> model_of_both(const Side& left, const Side& right, const VerifyOptions& options,
                            std::vector<std::string>& notes) {
  TANDEM_TRY(std::optional<Model> first, model_of_side(left, options, notes));
  TANDEM_TRY(std::optional<Model> second, model_of_side(right, options, notes));
  if (!first) std::swap(first, second);
  if (!first && !left.dump && !right.dump) return model_of(right.opened, {options.accepted_keys});
  Model model = first ? std::move(*first) : Model();
  if (!second) return model;
  model.vocab_size = std::min(model.vocab_size, second->vocab_size);
  model.max_position_embeddings = std::min(model.max_position_embeddings, second->max_position_embeddings);
  if (model.moe_layers != second->moe_layers || model.num_experts_per_tok != second->num_experts_per_tok)
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

/// The ids that a side which runs has; 0 for a dump.
uint64_t vocab_that_runs(const Side& left, const Side& right, const Model& model) {
  return left.dump && right.dump ? 0 : model.vocab_size;
}

Result<std::vector<Probe>> probes_for(const FileSystem& files, const Side& left, const Side& right,
                                      const Model& model, const VerifyOptions& options) {
  if (left.dump || right.dump) {
    if (!options.tokens_file.empty())
      return usage("", "--tokens: a comparison with a dump has the dump's prompts")
          .because("give them to tandem record");
    return probes_of_dumps(left.dump.get(), right.dump.get(), vocab_that_runs(left, right, model));
  }
  if (options.tokens_file.empty()) return default_probes(model);
  return probes_from_file(files, options.tokens_file, model.vocab_size);
}

/// Both sides, running, and what every level that runs them needs to know.
struct Running {
  std::unique_ptr<Engine> left, right;
  bool right_is_reference = false;
  bool reference_has_margins = false;  ///< it tells routing margins
  std::string dump;                    ///< the file whose probes are compared, if a dump takes part
  SideText left_text, right_text;      ///< each side's tokenizer
  Model model;
  DType lowest = DType::f32;
  /// Starts the contract in float64; null where it cannot be had. Empty where it is not wanted.
  std::function<Result<std::unique_ptr<Engine>>()> start_exact;
  std::unique_ptr<Engine> exact;  ///< see exact_engine

  /// The tokenizer that reads texts.
  const SideText& text() const { return left_text.model || !right_text.model ? left_text : right_text; }
  Engine& reference() const { return right_is_reference ? *right : *left; }
  Engine& other() const { return right_is_reference ? *left : *right; }
};

/// hf is the reference, else a dump that hf made; and a foreign side is none if it can be helped: the
/// contract is not what it was made by.
int rank_as_reference(const Side& side, EngineKind kind) {
  if (kind == EngineKind::hf) return 3;
  if (side.dump && side.dump->made_by() == name(EngineKind::hf)) return 2;
  return kind == EngineKind::keras_hub ? 0 : 1;
}

/// Levels that a side cannot take part in are left out, and said so. Errors: verify_c9 none is left.
Status keep_shown_levels(const Running& running, VerifyOptions& options, std::vector<std::string>& notes) {
  bool any = false;
  for (const LevelRow& level : kLevels) {
    for (const Engine* engine : {running.left.get(), running.right.get()}) {
      if (!(options.*level.wanted) || shows_level(visibility_of(engine->info()), level.name)) continue;
      options.*level.wanted = false;
      notes.push_back(fmt::format("the level {} was not compared: {} of {} cannot take part in it",
                                  level.name, engine->info().at("engine"), engine->info().at("path")));
    }
    any |= options.*level.wanted;
  }
  if (any) return {};
  return unsupported("verify_c9", "none of the levels asked for can be compared: {}", fmt::join(notes, "; "));
}

/// Probes that a side cannot run are left out, and said so. Errors: verify_c9 none is left.
Result<std::vector<Probe>> runnable(const Running& running, std::vector<Probe> probes,
                                    std::vector<std::string>& notes) {
  for (const Engine* engine : {running.left.get(), running.right.get()}) {
    const Visibility visibility = visibility_of(engine->info());
    std::erase_if(probes, [&](const Probe& probe) {
      if (can_run(visibility, probe)) return false;
      notes.push_back(
          fmt::format("the probe \"{}\" was not run: {} counts positions itself, without padding on the left "
                      "or gaps",
                      probe.name, engine->info().at("engine")));
      return true;
    });
  }
  if (probes.empty()) return unsupported("verify_c9", "no probe is left that both sides can run");
  return probes;
}

/// The taps that a side says it does not show, as one note.
void note_hidden_taps(const Sides& sides, std::vector<std::string>& notes) {
  std::vector<std::string> patterns;
  for (const std::string& tap : tap_names(*sides.stack))
    if (const std::string pattern = tap_pattern(tap);
        !sides.show(tap) && std::find(patterns.begin(), patterns.end(), pattern) == patterns.end())
      patterns.push_back(pattern);
  if (!patterns.empty())
    notes.push_back(
        fmt::format("taps that a side does not show were not compared: {}", fmt::join(patterns, ", ")));
}

Status start_both(const Side& left, const Side& right, DType lowest_storage, Model model,
                  const VerifyOptions& options, Running& running) {
  TANDEM_TRY(const EngineKind left_kind, engine_of(left));
  TANDEM_TRY(const EngineKind right_kind, engine_of(right));
  EngineOptions engine = options.engine;
  engine.beside_others = true;
  // Most of a start is loading a framework, on one thread.
  auto right_started = std::async(std::launch::async, [&] { return start_engine(right, engine); });
  auto left_started = start_engine(left, engine);
  auto right_engine = right_started.get();
  TANDEM_TRY(running.left, std::move(left_started));
  TANDEM_TRY(running.right, std::move(right_engine));
  running.right_is_reference = rank_as_reference(right, right_kind) > rank_as_reference(left, left_kind);
  const Side& reference = running.right_is_reference ? right : left;
  const bool is_hf = (running.right_is_reference ? right_kind : left_kind) == EngineKind::hf;
  running.reference_has_margins = is_hf || (reference.dump && reference.dump->has_routing());
  if (left.dump || right.dump) running.dump = (left.dump ? left : right).opened.path;
  running.model = std::move(model);
  running.lowest = lower_of(lower_of(compute_of(left), compute_of(right)), lowest_storage);
  return {};
}

ModelLevelOptions model_options(const Running& running, const VerifyOptions& options) {
  ModelLevelOptions level;
  level.lowest = running.lowest;
  level.atol = options.atol;
  level.moe_layers = running.model.moe_layers;
  level.num_experts_per_tok = running.model.num_experts_per_tok;
  level.reference_has_margins = running.reference_has_margins;
  return level;
}

/// The contract in float64, started when it is first needed; null where it cannot be had, or is not wanted.
Result<Engine*> exact_engine(Running& running) {
  if (running.start_exact) {
    TANDEM_TRY(running.exact, std::exchange(running.start_exact, {})());
  }
  return running.exact.get();
}

/// The file that the prompts are from, "" for built-in ones.
const std::string& source_of(const Running& running, const VerifyOptions& options) {
  return running.dump.empty() ? options.tokens_file : running.dump;
}

Status model_level(Running& running, std::vector<Probe> probes, const VerifyOptions& options,
                   VerifyReport& report) {
  std::vector<std::string> skipped;
  if (options.tokens_file.empty() && running.dump.empty()) {
    add_text_probe(running.text(), running.model.vocab_size, probes, skipped);
  }
  report.basis.prompts.push_back(prompt_set("model", probes, source_of(running, options), kProbeSeed));
  ModelLevelOptions level = model_options(running, options);
  level.start_exact = [&] { return exact_engine(running); };
  auto compared = compare_models(running.reference(), running.other(), probes, level);
  if (!compared.ok() && compared.error().kind != ErrorKind::not_equal) return std::move(compared).error();
  report.model = compared.ok() ? std::move(compared).value() : not_comparable(compared.error());
  report.model->skipped = std::move(skipped);
  if (running.text().model) add_pieces(*report.model, probes, running.text().model->tokenizer);
  return {};
}

/// The user's own lines, or random ids and, where there is a tokenizer, texts.
std::vector<Prompt> prompts_for(const Running& running, const std::vector<Probe>& lines,
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
  TextIds texts = encode_texts(running.text(), kShortTexts, running.model.vocab_size);
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

/// What makes text of ids; null where nothing can, for a reason that is added.
const text::Tokenizer* decoder(const Running& running, std::vector<std::string>& skipped) {
  if (running.text().model) return &running.text().model->tokenizer;
  skipped.push_back("BLEU: " + running.text().skipped);
  return nullptr;
}

Status generation_level(const Running& running, const std::vector<Probe>& lines, const VerifyOptions& options,
                        VerifyReport& report) {
  std::vector<std::string> skipped;
  const std::vector<Prompt> prompts = prompts_for(running, lines, options, skipped);
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
  engine_options.beside_others = true;
  engine_options.dtype = dtype;
  auto engine = Engine::start(EngineKind::torch, side.opened.path, engine_options);
  if (engine.ok() || engine.error().kind != ErrorKind::unavailable) return engine;
  report.notes.push_back(fmt::format("the contract was not run in {}: {}", dtype, engine.error().text));
  return std::unique_ptr<Engine>();
}

/// Float64 is of the side that a dump is compared with, the dump having no weights: where the reference is
/// far from it, the two sides differ, and nothing is said about contract and reference.
void blame_no_contract(std::vector<std::string>& failures) {
  constexpr std::string_view kBlame = "contract and reference disagree: the reference";
  for (std::string& line : failures)
    if (const size_t at = line.find(kBlame); at != line.npos) line.replace(at, kBlame.size(), "the dump");
}
void blame_no_contract(std::vector<TapResult>& taps) {
  for (TapResult& tap : taps) {
    if (tap.verdict == Verdict::reference_disagrees) tap.verdict = Verdict::different;
    blame_no_contract(tap.failures);
  }
}

/// The side whose contract stands between the two, and is run in float64: the reference, or the one that is
/// no dump. Of two dumps the first with a config: its contract names the taps, and nothing runs it.
const Side& contract_side(const Side& reference, const Side& other) {
  if (!reference.dump) return reference;
  return !other.dump || reference.opened.config.is_null() ? other : reference;
}

/// The levels between weights and model, and where they part.
Status inner_levels(Running& running, const Side& reference, const Side& other,
                    const std::vector<Probe>& probes, const VerifyOptions& options, VerifyReport& report) {
  const Side& source = contract_side(reference, other);
  TANDEM_TRY(const auto contract, SideContract::open(source, {options.accepted_keys}));
  TANDEM_TRY(const LayerStack stack, layer_stack_of(contract->contract()));
  Sides sides;
  sides.reference = &running.reference();
  sides.other = &running.other();
  // Rounded weights or narrow arithmetic are no matter of float32's error: there the fixed bars stand.
  if (running.lowest == DType::f32) {
    TANDEM_TRY(sides.exact, exact_engine(running));
  }
  sides.reference_is_left = !running.right_is_reference;
  sides.contract = &contract->contract();
  sides.stack = &stack;
  sides.other_compute = compute_of(other);
  sides.tolerance = tolerance_of(running.lowest);
  sides.reference_shows = visibility_of(running.reference().info());
  sides.other_shows = visibility_of(running.other().info());
  note_hidden_taps(sides, report.notes);
  const InnerProbes inner = inner_probes(with_taps(probes, reference.dump.get(), other.dump.get()));
  if (options.layer) {
    TANDEM_TRY(report.layer, compare_layers(sides, inner.layer));
    report.basis.prompts.push_back(prompt_set("layer", inner.layer, options.tokens_file, kProbeSeed));
  }
  if (options.module) {
    TANDEM_TRY(report.module, compare_modules(sides, inner.module));
    report.basis.prompts.push_back(prompt_set("module", inner.module, options.tokens_file, kProbeSeed));
  }
  if (&source != &reference) {
    if (report.layer)
      for (LayerResult& layer : report.layer->layers) blame_no_contract(layer.taps);
    if (report.module) blame_no_contract(report.module->taps);
  }
  const bool failed =
      (report.layer && !report.layer->passed()) || (report.module && !report.module->passed());
  if (!failed || !sides.exact) return {};
  TANDEM_TRY(const auto float32, start_contract(source, "float32", options, report));
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

/// What a dump has nothing for is not compared, and said so.
VerifyOptions levels_of_dumps(const Side& left, const Side& right, VerifyOptions options,
                              std::vector<std::string>& notes) {
  for (const Side* side : {&left, &right}) {
    if (!side->dump) continue;
    for (const LevelRow& level : kLevels) {
      const bool recorded = side->dump->levels().contains(std::string(level.name));
      if (!(options.*level.wanted) || recorded) continue;
      options.*level.wanted = false;
      notes.push_back(fmt::format("the level {} was not compared: the dump {} has nothing for it", level.name,
                                  side->opened.path));
    }
  }
  return options;
}

/// Both sides read our texts as the same ids, where texts will be read. Errors: not_equal (verify_c12).
Status check_texts(const Side& left, const Side& right, const Running& running, const VerifyOptions& options,
                   std::vector<std::string>& notes) {
  const bool texts_are_read =
      options.tokens_file.empty() && !left.dump && !right.dump && (options.model || options.generation);
  if (!texts_are_read) return {};
  TANDEM_CHECK(same_ids(running.left_text, running.right_text));
  if (running.left_text.model.has_value() != running.right_text.model.has_value())
    notes.push_back(
        fmt::format("{}: texts were read by the other side's tokenizer",
                    running.left_text.model ? running.right_text.skipped : running.left_text.skipped));
  return {};
}

/// Where an hf side takes part, the tokenizers library reads them alike too; that it cannot read the file is
/// a note. Errors: verify_c13, and that the worker is gone.
Status check_library(const Side& left, const Side& right, const Running& running,
                     std::vector<std::string>& notes) {
  const auto check = [&](const Side& side, const SideText& text, Engine& engine) -> Status {
    TANDEM_TRY(const EngineKind kind, engine_of(side));
    if (kind != EngineKind::hf || !text.model) return {};
    const Status same = same_ids_as_library(text.model->tokenizer, engine);
    const bool unread = !same.ok() && (same.error().kind == ErrorKind::invalid ||
                                       same.error().kind == ErrorKind::unsupported);
    if (unread) notes.push_back("our tokenizer was not held to the tokenizers library: " + same.error().text);
    return unread ? Status() : same;
  };
  TANDEM_CHECK(check(left, running.left_text, *running.left));
  return check(right, running.right_text, *running.right);
}

/// The levels that run both sides. Takes out of `options` those that a side cannot take part in.
Status run_levels(const FileSystem& files, const Side& left, const Side& right, DType lowest_storage,
                  VerifyOptions& options, VerifyReport& report) {
  TANDEM_TRY(Model model, model_of_both(left, right, options, report.notes));
  TANDEM_TRY(std::vector<Probe> probes, probes_for(files, left, right, model, options));
  Running running;
  running.left_text = text_of(left.opened);
  running.right_text = text_of(right.opened);
  TANDEM_CHECK(check_texts(left, right, running, options, report.notes));
  TANDEM_CHECK(start_both(left, right, lowest_storage, std::move(model), options, running));
  if (options.model || options.generation) TANDEM_CHECK(check_library(left, right, running, report.notes));
  TANDEM_CHECK(keep_shown_levels(running, options, report.notes));
  TANDEM_TRY(probes, runnable(running, std::move(probes), report.notes));
  const Side& reference = running.right_is_reference ? right : left;
  const Side& other = running.right_is_reference ? left : right;
  if (left.dump && right.dump)
    report.notes.push_back("two dumps: fixed bars, as neither can run the contract in float64");
  else if (options.float64) {
    running.start_exact = [&] {
      return start_contract(contract_side(reference, other), "float64", options, report);
    };
  }
  report.left = running.left->info();
  report.right = running.right->info();
  report.reference = running.right_is_reference ? "right" : "left";
  if (options.layer || options.module) {
    const Status inner = inner_levels(running, reference, other, probes, options, report);
    const bool no_contract = !inner.ok() && (inner.error().kind == ErrorKind::unsupported ||
                                             (left.dump && right.dump && inner.error().rule == "open_c2"));
    if (!inner.ok() && !no_contract) return inner;
    if (!inner.ok()) report.notes.push_back("layers and modules were not compared: " + inner.error().text);
  }
  if (options.model) {
    TANDEM_CHECK(model_level(running, probes, options, report));
    if (&contract_side(reference, other) != &reference)
      for (ProbeResult& probe : report.model->probes) blame_no_contract(probe.failures);
  }
  if (options.generation) {
    TANDEM_CHECK(generation_level(running, probes, options, report));
  }
  report.float64 = running.exact != nullptr;
  return {};
}

EngineInfo plain_info(const Side& side) {
  if (side.dump) return side.dump->info();
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
  VerifyOptions levels = levels_of_dumps(*left, *right, options, report.notes);
  // The others need it too: it says whether one side's weights are rounded.
  std::optional<WeightsLevel> weights;
  if (left->dump || right->dump) {
    for (std::string& line : config_differences(left->opened.config, right->opened.config))
      report.notes.push_back(std::move(line));
  } else {
    TANDEM_TRY(weights, weights_level(*left, *right, options));
  }
  report.basis.left_rules_sha256 = rules_sha256(left->rules);
  report.basis.right_rules_sha256 = rules_sha256(right->rules);
  // A foreign side is asked whether the files' weights are what it runs.
  const bool foreign = left->engine == EngineKind::keras_hub || right->engine == EngineKind::keras_hub;
  if (levels.layer || levels.module || levels.model || levels.generation || foreign) {
    const DType narrowest = weights ? weights->narrowest.value_or(DType::f32) : DType::f32;
    TANDEM_CHECK(run_levels(files, *left, *right, narrowest, levels, report));
  }
  if (levels.weights) report.weights = std::move(weights);
  return report;
}

}  // namespace tandem
