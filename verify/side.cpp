#include "verify/side.h"

#include <algorithm>
#include <set>

#include "contract/text.h"
#include "convert/match_report.h"

namespace tandem {
namespace {

bool has_fp8(const TensorSource& source) {
  return std::any_of(source.tensors().begin(), source.tensors().end(),
                     [](const TensorInfo& info) { return info.dtype == DType::f8_e4m3; });
}

/// The weights of a plain checkpoint: those that the rules make something of; a tied one by the name it is
/// tied to.
void add_plain(const TensorSource& folder, const RuleTable& rules, TensorView& view) {
  std::map<std::string, std::string> twin_of;
  for (const RuleRow& row : rules.rows)
    if (!row.tied_to.empty()) twin_of[row.tied_to] = row.hf;
  for (const TensorPlan& plan : expand(rules))
    for (const std::string& name : plan.hf) {
      const TensorInfo* info = folder.find(name);
      if (!info && twin_of.contains(name)) info = folder.find(twin_of[name]);
      if (info) view.add({name, info->dtype, info->shape}, folder, info->name);
    }
  view.sort();
}

Status read_folder(Side& side) {
  const Match found = match(side.rules, *side.opened.folder);
  if (const auto lines = problems(found); !lines.empty())
    return all_problems("convert_c1", "the checkpoint does not fit its config", lines).at(side.opened.path);
  if (!has_fp8(*side.opened.folder)) {
    add_plain(*side.opened.folder, side.rules, side.weights);
    return {};
  }
  TransformOptions options;
  options.fp8_dtype = DType::f32;
  TANDEM_TRY(side.dequantised, ToTensorFlow::make(side.rules, *side.opened.folder, options));
  TANDEM_TRY(side.hugging_face, ToHuggingFace::make(side.rules, *side.dequantised, {}));
  side.weights.add_all(*side.hugging_face);
  return {};
}

Status read_bundle(Side& side) {
  NamedTensors named = find_named(*side.opened.bundle, side.rules);
  if (!named.wrong.empty())
    return all_problems("convert_c1", "the checkpoint does not fit the rules", named.wrong)
        .at(side.opened.path);
  const bool lost = std::any_of(named.carried.begin(), named.carried.end(),
                                [](const MissingCarried& tensor) { return !tensor.optional; });
  if (lost) side.rules = rows_where(side.rules, true);
  side.named = std::move(named.view);
  TANDEM_TRY(side.hugging_face, ToHuggingFace::make(side.rules, side.named, {}));
  side.weights.add_all(*side.hugging_face);
  return {};
}

}  // namespace

Result<SideSpec> parse_side(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view prefix = text.substr(0, colon);
  if (colon == std::string_view::npos || prefix.find('/') != std::string_view::npos)
    return SideSpec{{}, std::string(text)};
  const auto engine = engine_named(prefix);
  if (!engine.ok()) return Error(engine.error()).because("a path with a colon in it needs ./ in front");
  return SideSpec{engine.value(), std::string(text.substr(colon + 1))};
}

Result<EngineKind> default_engine(ModelFormat format) {
  if (format == ModelFormat::saved_model || format == ModelFormat::staged) return EngineKind::tf;
  if (format == ModelFormat::hf_folder) return EngineKind::hf;
  return unsupported("verify_c2", "a {} has no graph to run", name(format))
      .because("use --levels weights, or convert it to a SavedModel or a Hugging Face folder");
}

Result<EngineKind> engine_for(ModelFormat format, std::optional<EngineKind> wanted) {
  TANDEM_TRY(const EngineKind usual, default_engine(format));
  if (!wanted || *wanted == usual || *wanted == EngineKind::torch) return wanted.value_or(usual);
  if (*wanted == EngineKind::keras_hub && usual == EngineKind::hf) return *wanted;
  return unsupported("verify_c2", "the engine '{}' does not run a {}", name(*wanted), name(format))
      .because("tf runs SavedModels, hf Hugging Face folders, keras_hub as well, torch both");
}

DType compute_of(const OpenedModel& opened) {
  const auto text = opened.side_files.find(std::string(kContractFile));
  if (text == opened.side_files.end()) return DType::f32;
  const Result<Contract> contract = parse_contract(text->second);
  return contract.ok() ? contract.value().compute : DType::f32;
}

Result<std::unique_ptr<Side>> open_side(const FileSystem& files, const SideSpec& spec,
                                        const ArchOptions& options, const SafetensorsLimits& limits) {
  auto side = std::make_unique<Side>();
  if (spec.engine == EngineKind::dump) {
    TANDEM_TRY(side->dump, DumpFile::open(files, spec.path, limits));
    side->engine = spec.engine;
    side->opened.format = ModelFormat::safetensors;
    side->opened.path = spec.path;
    side->opened.config = side->dump->config();
    return side;
  }
  TANDEM_TRY(side->opened, open_model(files, spec.path, {.limits = limits}));
  side->engine = spec.engine;
  if (side->opened.record) {
    side->rules = side->opened.record->rules;
  } else if (!side->opened.config.is_null()) {
    TANDEM_TRY(Model model, model_of(side->opened, options));
    side->rules = std::move(model.rules);
  }
  return side;
}

Result<EngineKind> engine_of(const Side& side) {
  if (side.dump) return EngineKind::dump;
  auto engine = engine_for(side.opened.format, side.engine);
  if (!engine.ok()) return std::move(engine).error().at(side.opened.path);
  return engine;
}

Result<std::unique_ptr<Engine>> start_engine(const Side& side, const EngineOptions& options) {
  if (side.dump) return dump_engine(side.dump);
  TANDEM_TRY(const EngineKind kind, engine_of(side));
  return Engine::start(kind, side.opened.path, options);
}

Status read_weights(Side& side, const Side& other) {
  if (side.rules.rows.empty()) side.rules = other.rules;
  if (side.rules.rows.empty())
    return missing("verify_c1", "neither side has a config.json or {}", kRecordFile).at(side.opened.path);
  return side.opened.folder ? read_folder(side) : read_bundle(side);
}

}  // namespace tandem
