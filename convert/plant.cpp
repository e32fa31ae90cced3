#include "convert/plant.h"

#include <algorithm>

#include "base/signals.h"
#include "base/staging.h"
#include "contract/text.h"
#include "convert/config_fault.h"
#include "convert/edited_tensors.h"
#include "convert/match_report.h"
#include "convert/named_tensors.h"
#include "convert/saved_model_folder.h"
#include "lower/tf/lower_tf.h"
#include "rules/transform.h"

namespace tandem {
namespace {

/// A model that faults can be planted in: its contract, and its weights by their TensorFlow names. Not
/// movable: its parts point at each other.
struct Patient {
  OpenedModel opened;
  Contract contract;
  RuleTable rules;
  std::vector<TensorPlan> plans;          ///< of the tensors that are there
  TensorView named;                       ///< of a SavedModel
  std::unique_ptr<ToTensorFlow> forward;  ///< of a Hugging Face folder
  FaultContext context;

  const TensorSource& tensors() const {
    if (forward) return *forward;
    return named;
  }
};

Error not_a_patient(const OpenedModel& opened, std::string_view what) {
  return unsupported("plant_c1",
                     "a {}{}: faults are planted in a SavedModel that tandem made, or in a Hugging "
                     "Face folder with its config and weights",
                     name(opened.format), what)
      .at(opened.path);
}

Status open_graph(Patient& patient) {
  const auto text = patient.opened.side_files.find(std::string(kContractFile));
  if (text == patient.opened.side_files.end() || !patient.opened.record)
    return not_a_patient(patient.opened, " without the files that tandem keeps in it");
  auto contract = parse_contract(text->second);
  if (!contract.ok()) return std::move(contract).error().at(join(patient.opened.path, kContractFile));
  patient.contract = std::move(contract).value();
  if (Status checked = check(patient.contract); !checked.ok())
    return Error(checked.error()).at(join(patient.opened.path, kContractFile));
  patient.rules = patient.opened.record->rules;
  NamedTensors named = find_named(*patient.opened.bundle, patient.rules);
  if (!named.wrong.empty())
    return all_problems("convert_c1", "the checkpoint does not fit the rules", named.wrong)
        .at(patient.opened.path);
  patient.named = std::move(named.view);
  return patient.opened.bundle->verify_checksums();  // a flipped bit must not pass as a fault of ours
}

std::function<DType(const std::string&)> storage_of(const TensorSource& tensors) {
  return [&tensors](const std::string& tf) {
    const TensorInfo* info = tensors.find(tf);
    return info ? info->dtype : DType::f32;
  };
}

Result<Contract> contract_of(const Patient& patient, const Json& config, const PlantOptions& options) {
  TANDEM_TRY(const Model model, make_model(config, {options.accepted_keys}));
  return model.contract(model.rules, DType::f32, storage_of(*patient.forward));
}

Status open_folder(Patient& patient, const PlantOptions& options) {
  TANDEM_TRY(Model model, model_of(patient.opened, {options.accepted_keys}));
  patient.rules = std::move(model.rules);
  const std::vector<std::string> lines = problems(match(patient.rules, *patient.opened.folder));
  if (!lines.empty())
    return all_problems("convert_c1", "the checkpoint does not fit its config", lines)
        .at(patient.opened.path);
  TransformOptions transform;
  transform.fp8_dtype = DType::f32;  // exact: code times scale
  TANDEM_TRY(patient.forward, ToTensorFlow::make(patient.rules, *patient.opened.folder, transform));
  TANDEM_TRY(patient.contract, contract_of(patient, patient.opened.config, options));
  for (const TensorInfo& info : patient.opened.folder->tensors())
    if (info.name.ends_with("_scale_inv")) patient.context.scales.insert(info.name);
  return {};
}

Result<std::unique_ptr<Patient>> open_patient(const FileSystem& files, const std::string& source,
                                              const PlantOptions& options) {
  auto patient = std::make_unique<Patient>();
  TANDEM_TRY(patient->opened, open_model(files, source, {.limits = options.limits}));
  const ModelFormat format = patient->opened.format;
  if (format != ModelFormat::saved_model && format != ModelFormat::hf_folder)
    return not_a_patient(patient->opened, "");
  TANDEM_CHECK(format == ModelFormat::saved_model ? open_graph(*patient) : open_folder(*patient, options));
  patient->plans = expand(patient->rules);
  std::erase_if(patient->plans, [&](const TensorPlan& plan) { return !patient->tensors().find(plan.tf); });
  patient->context.rules = &patient->rules;
  return patient;
}

/// What `planted` becomes in a Hugging Face folder: nothing for edits of weights, or a config that has the
/// fault.
Result<Json> config_with(const Patient& patient, const Planted& planted, const PlantOptions& options) {
  const Json& config = patient.opened.config;
  if (planted.contract == patient.contract) return config;
  Json changed = config_of_fault(config, patient.contract, planted.contract);
  const auto contract = contract_of(patient, changed, options);
  const bool fits = planted.weights.empty() && contract.ok() &&
                    (options.at.empty() ? is_between(contract.value(), patient.contract, planted.contract)
                                        : contract.value() == planted.contract);
  if (fits) return changed;
  return unsupported(
             "plant_c2",
             "{}{}{} lies in the graph, and a Hugging Face folder has none: no key of config.json says it",
             planted.fault, options.at.empty() ? "" : " in ", options.at)
      .at(patient.opened.path)
      .because("plant it in a SavedModel: tandem convert makes one");
}

/// A copy with a fault replaces nothing: there is no --force.
Result<StagedFolder> new_folder(const FileSystem& files, const std::string& destination) {
  auto staged = StagedFolder::make(files, destination, false);
  if (!staged.ok() && staged.error().kind == ErrorKind::exists)
    return std::move(staged).error().because("remove it, or name another output");
  return staged;
}

/// Reads on, and counts.
class Progress {
 public:
  Progress(const PlantOptions& options, uint64_t total) : options_(options), total_(total) {}
  Status operator()(uint64_t bytes) {
    done_ += bytes;
    if (interrupted()) return unavailable("", "stopped by a signal; nothing was written");
    return options_.progress ? options_.progress(done_, total_) : Status{};
  }

 private:
  const PlantOptions& options_;
  uint64_t done_ = 0, total_;
};

bool is_edited(const Planted& planted, const TensorPlan& plan) {
  return std::ranges::find(planted.weights, plan.contract_name, &WeightEdit::weight) != planted.weights.end();
}

/// True if two sources hold the same bytes for a tensor that both have.
Result<bool> same_bytes(const TensorSource& a, const TensorSource& b, const TensorInfo& info) {
  constexpr uint64_t kPieceBytes = 4 << 20;
  TANDEM_TRY(const uint64_t bytes, byte_count(info.dtype, info.shape));
  std::vector<std::byte> left, right;
  for (uint64_t at = 0; at < bytes; at += kPieceBytes) {
    left.resize(std::min(kPieceBytes, bytes - at));
    right.resize(left.size());
    TANDEM_CHECK(a.read(info.name, at, left));
    TANDEM_CHECK(b.read(info.name, at, right));
    if (left != right) return false;
  }
  return true;
}

Status write_graph(const FileSystem& files, const Patient& patient, const Planted& planted,
                   const TensorSource& edited, const TensorSource& watched, const std::string& folder,
                   PlantReport& report) {
  TANDEM_TRY(SavedModelSpec spec, lower_to_tensorflow(planted.contract, in_graph(patient.plans)));
  for (const auto& [name, content] : patient.opened.side_files) spec.assets.push_back({name, content});
  for (const TensorPlan& plan : patient.plans) {
    if (!is_edited(planted, plan)) continue;
    TANDEM_TRY(const bool same, same_bytes(patient.tensors(), edited, *edited.find(plan.tf)));
    if (!same) report.weights.push_back(plan.tf);
  }
  return write_saved_model_folder(files, folder, spec, patient.plans, watched);
}

/// Hugging Face names of the tensors that edits reach: with scales, and tied copies.
std::set<std::string> reached(const Patient& patient, const Planted& planted) {
  std::set<std::string> names;
  for (const TensorPlan& plan : patient.plans) {
    if (!is_edited(planted, plan)) continue;
    for (const std::string& hf : plan.hf) {
      names.insert(hf);
      for (const Step& step : plan.row->steps)
        if (const auto* blocks = std::get_if<BlockDequantize>(&step)) names.insert(hf + blocks->scale_suffix);
      for (const RuleRow& row : patient.rules.rows)
        if (row.tied_to == hf) names.insert(row.hf);
    }
  }
  return names;
}

Status write_folder(const FileSystem& files, const Patient& patient, const Planted& planted,
                    const Json& config, const TensorSource& tensors, const std::string& folder,
                    const PlantOptions& options, PlantReport& report) {
  const HfFolder& source = *patient.opened.folder;
  std::unique_ptr<ToHuggingFace> back;
  if (!planted.weights.empty()) {
    BackOptions like;
    like.like = &source;
    TANDEM_TRY(back, ToHuggingFace::make(patient.rules, tensors, like));
  }
  const std::set<std::string> names = reached(patient, planted);
  TensorView out;
  HfWriteOptions write;
  for (const TensorInfo& info : source.tensors()) {
    const bool is_reached = names.contains(info.name) && back->find(info.name);
    if (is_reached) {
      TANDEM_TRY(const bool same, same_bytes(source, *back, info));
      if (!same) report.weights.push_back(info.name);
    }
    out.add(info, is_reached ? static_cast<const TensorSource&>(*back) : source, info.name);
    const auto shard = source.weight_map().find(info.name);
    write.shard_of[info.name] = shard == source.weight_map().end() ? "model.safetensors" : shard->second;
  }
  TANDEM_TRY(const uint64_t total, total_bytes(out));
  Progress progress(options, total);
  const WatchedSource watched(out, std::ref(progress));
  TANDEM_CHECK(write_hf_weights(files, folder, watched, write));
  report.keys = different_keys(patient.opened.config, config);
  for (const auto& [name, content] : patient.opened.side_files) {
    const bool is_config = name == "config.json" && !report.keys.empty();
    TANDEM_CHECK(write_text(files, join(folder, name), is_config ? config.dump(2) + "\n" : content));
  }
  return {};
}

std::string value_of(const Json& config, const std::string& key) {
  const size_t dot = key.find('.');
  const std::string first = key.substr(0, dot);
  if (!config.contains(first)) return "absent";
  return dot == key.npos ? config[first].dump() : value_of(config[first], key.substr(dot + 1));
}

}  // namespace

Json to_json(const PlantReport& report) {
  return Json{{"fault", report.fault}, {"cause", report.cause},     {"format", report.format},
              {"wrong", report.words}, {"weights", report.weights}, {"config_keys", report.keys}};
}

Result<PlantReport> plant_model(const FileSystem& files, const std::string& source, std::string_view fault,
                                const std::string& destination, const PlantOptions& options) {
  if (faults_named(fault).empty())
    return plant({}, fault, options.at, {}).error();  // before a big file is read
  TANDEM_TRY(const auto patient, open_patient(files, source, options));
  TANDEM_TRY(const Planted planted, plant(patient->contract, fault, options.at, patient->context));
  PlantReport report{
      planted.fault, planted.cause, std::string(name(patient->opened.format)), planted.words, {}, {}};
  const EditedTensors edited(patient->tensors(), patient->plans, planted.weights,
                             patient->opened.folder.get());
  if (patient->opened.folder) {
    TANDEM_TRY(const Json config, config_with(*patient, planted, options));
    TANDEM_TRY(StagedFolder staged, new_folder(files, destination));
    TANDEM_CHECK(write_folder(files, *patient, planted, config, edited, staged.path(), options, report));
    if (!report.keys.empty()) report.words.clear();
    for (const std::string& key : report.keys)
      report.words.push_back(fmt::format("config.json: {} is {}, was {}", key, value_of(config, key),
                                         value_of(patient->opened.config, key)));
    TANDEM_CHECK(staged.commit(false));
    return report;
  }
  TANDEM_TRY(const uint64_t total, total_bytes(edited));
  Progress progress(options, total);
  const WatchedSource watched(edited, std::ref(progress));
  TANDEM_TRY(StagedFolder staged, new_folder(files, destination));
  TANDEM_CHECK(write_graph(files, *patient, planted, edited, watched, staged.path(), report));
  TANDEM_CHECK(staged.commit(false));
  return report;
}

Result<std::vector<Applicable>> applicable_faults(const FileSystem& files, const std::string& source,
                                                  const PlantOptions& options) {
  TANDEM_TRY(const auto patient, open_patient(files, source, options));
  std::vector<Applicable> found;
  for (const FaultRow& row : faults()) {
    const auto planted = plant(patient->contract, row.name, options.at, patient->context);
    found.push_back({&row, planted.ok() ? "" : planted.error().text});
    if (!planted.ok() || !patient->opened.folder) continue;
    const auto config = config_with(*patient, planted.value(), options);
    if (!config.ok()) found.back().why_not = config.error().text;
  }
  return found;
}

}  // namespace tandem
