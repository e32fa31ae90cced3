// Hugging Face to TensorFlow.

#include <algorithm>
#include <set>

#include "contract/check.h"
#include "contract/text.h"
#include "convert/direction.h"
#include "convert/match_report.h"
#include "convert/saved_model_folder.h"
#include "convert/side_files.h"
#include "convert/stored_frequencies.h"
#include "convert/structure_map.h"
#include "lower/tf/lower_tf.h"
#include "rules/transform.h"

namespace tandem {
namespace {

constexpr std::string_view kCheckpointName = "model";

/// All that is decided before the first byte is written.
struct Plan {
  Model model;
  RuleTable rules;
  std::unique_ptr<ToTensorFlow> tensors;
  std::vector<TensorPlan> plans;
  SavedModelSpec spec;
  std::vector<std::string> remarks;
};

/// The head is absent though the config says untied: with --allow-tied-head the config is made to say tied.
Status tie_head(OpenedModel& source, const ConvertOptions& options, Plan& plan) {
  if (!options.allow_tied_head) return {};
  if (source.folder->find("lm_head.weight"))
    return invalid("convert_c4", "--allow-tied-head, but lm_head.weight is in the checkpoint")
        .at(source.path);
  TANDEM_TRY(source.side_files["config.json"],
             with_key(source.side_files["config.json"], "tie_word_embeddings", true));
  source.config["tie_word_embeddings"] = true;
  plan.remarks.push_back(
      "lm_head.weight is missing and was tied to the embedding, as --allow-tied-head asks; config.json now "
      "says so");
  return {};
}

Result<RuleTable> rules_for(const FileSystem& files, const Model& model, const ConvertOptions& options) {
  if (options.map_file.empty()) return model.rules;
  TANDEM_TRY(const std::string text, read_text(files, options.map_file, 1'000'000'000));
  auto map = map_from_text(text);
  if (!map.ok()) return std::move(map).error().at(options.map_file);
  if (map.value().rules.architecture != model.architecture)
    return invalid("convert_c4", "the map is for {}, the checkpoint is {}", map.value().rules.architecture,
                   model.architecture)
        .at(options.map_file);
  return std::move(map).value().rules;
}

Status all_matched(const OpenedModel& source, const Match& found) {
  const std::vector<std::string> lines = problems(found);
  if (lines.empty()) return {};
  Error error = all_problems("convert_c1", "the checkpoint does not fit its config", lines).at(source.path);
  const bool head =
      std::find(found.missing.begin(), found.missing.end(), "lm_head.weight") != found.missing.end();
  if (head && source.folder->find("model.embed_tokens.weight"))
    error.hint =
        "config.json says that the head is not tied; --allow-tied-head ties it to the embedding and records "
        "that";
  return error;
}

/// Every weight of the contract has exactly one tensor, and every tensor in the graph is a weight of the
/// contract.
Status covers(const Contract& contract, const std::vector<TensorPlan>& plans) {
  std::map<std::string, const TensorPlan*> by_name;
  for (const TensorPlan& plan : plans)
    if (plan.row->in_graph) by_name[plan.contract_name] = &plan;
  std::vector<std::string> lines;
  for (const WeightEntry& weight : contract.weights) {
    const auto found = by_name.find(weight.name);
    if (found == by_name.end())
      lines.push_back("no tensor for the contract's weight " + weight.name);
    else if (found->second->tf_shape != weight.shape)
      lines.push_back(fmt::format("{}: the rules make {}, the contract has {}", weight.name,
                                  to_string(found->second->tf_shape), to_string(weight.shape)));
    if (found != by_name.end()) by_name.erase(found);
  }
  for (const auto& [name, plan] : by_name) lines.push_back("the contract does not use " + name);
  if (lines.empty()) return {};
  return all_problems("convert_c1", "rules and contract do not agree", lines);
}

std::function<DType(const std::string&)> storage_of(const TensorSource& tensors) {
  return [&tensors](const std::string& tf) {
    const TensorInfo* info = tensors.find(tf);
    return info ? info->dtype : DType::f32;
  };
}

/// Names of the tensors that a rule ignores.
std::vector<std::string> ignored_names(const Match& found) {
  std::vector<std::string> names;
  for (const std::string& line : found.ignored) names.push_back(line.substr(0, line.find(':')));
  return names;
}

Record record_of(const OpenedModel& source, const RuleTable& rules, const Match& found) {
  const std::vector<std::string> names = ignored_names(found);
  const std::set<std::string, std::less<>> ignored(names.begin(), names.end());
  Record record{rules, {}};
  const auto& shards = source.folder->weight_map();
  for (const TensorInfo& info : source.folder->tensors()) {
    if (ignored.contains(info.name)) continue;
    const auto shard = shards.find(info.name);
    record.original.push_back({info, shard == shards.end() ? "model.safetensors" : shard->second});
  }
  return record;
}

void add_asset(Plan& plan, std::string_view name, std::string content) {
  plan.spec.assets.push_back({std::string(name), std::move(content)});
}

void remark_dtype(const OpenedModel& source, const ConvertOptions& options, Plan& plan) {
  if (options.dtype)
    plan.remarks.push_back(fmt::format("stored as {}, as --dtype asks", row(*options.dtype).long_name));
  for (const TensorInfo& info : source.folder->tensors()) {
    if (info.dtype != DType::f8_e4m3) continue;
    const DType stored = options.dtype.value_or(plan.model.dtype);
    plan.remarks.push_back(
        fmt::format("fp8 weights were dequantised to {}; --like ORIGINAL remakes them on the way back",
                    row(stored).long_name));
    return;
  }
}

Status check_frequencies(const OpenedModel& source, const Contract& contract, const Match& found,
                         const ConvertOptions& options, Plan& plan) {
  TANDEM_TRY(const std::vector<std::string> lines,
             odd_frequencies(contract, ignored_names(found), *source.folder));
  if (options.strict && !lines.empty())
    return all_problems("convert_c6", "stored rotary tables", lines)
        .at(source.path)
        .because("the config's rope_theta or rope_scaling may be wrong");
  for (const std::string& line : lines) plan.remarks.push_back("warning: " + line);
  return {};
}

Status make_graph(const OpenedModel& source, const Match& found, const ConvertOptions& options, Plan& plan) {
  TANDEM_TRY(const Contract contract,
             plan.model.contract(plan.rules, options.compute, storage_of(*plan.tensors)));
  TANDEM_CHECK(check(contract));
  TANDEM_CHECK(covers(contract, plan.plans));
  TANDEM_CHECK(check_frequencies(source, contract, found, options, plan));
  TANDEM_TRY(plan.spec, lower_to_tensorflow(contract, in_graph(plan.plans),
                                            {.eos_token_ids = plan.model.eos_token_ids}));
  for (const auto& [name, content] : source.side_files) add_asset(plan, name, content);
  add_asset(plan, kContractFile, print(contract));
  add_asset(plan, kRecordFile, to_text(record_of(source, plan.rules, found)));
  return {};
}

Result<std::unique_ptr<Plan>> make_plan(const FileSystem& files, OpenedModel& source,
                                        const ConvertOptions& options) {
  auto plan = std::make_unique<Plan>();
  plan->remarks = source.remarks();
  TANDEM_CHECK(tie_head(source, options, *plan));
  TANDEM_TRY(plan->model, model_of(source, {options.accepted_keys}));
  TANDEM_TRY(plan->rules, rules_for(files, plan->model, options));
  const Match found = match(plan->rules, *source.folder);
  TANDEM_CHECK(all_matched(source, found));
  for (const std::string& line : found.ignored) plan->remarks.push_back("not converted: " + line);
  TransformOptions transform;
  transform.dtype = options.dtype;
  transform.fp8_dtype = plan->model.dtype;
  TANDEM_TRY(plan->tensors, ToTensorFlow::make(plan->rules, *source.folder, transform));
  plan->plans = expand(plan->rules);
  std::erase_if(plan->plans,
                [&](const TensorPlan& tensor) { return !plan->tensors->find(tensor.tf); });  // optional ones
  remark_dtype(source, options, *plan);
  TANDEM_CHECK(make_graph(source, found, options, *plan));
  return plan;
}

Status write_checkpoint_folder(const FileSystem& files, const std::string& folder, const Plan& plan,
                               const WatchedSource& tensors) {
  TANDEM_CHECK(write_bundle(files, join(folder, kCheckpointName), plan.spec, plan.plans, tensors));
  for (const SavedAsset& asset : plan.spec.assets) {
    TANDEM_CHECK(write_text(files, join(folder, asset.name), asset.content));
  }
  return write_text(
      files, join(folder, "checkpoint"),
      fmt::format("model_checkpoint_path: \"{0}\"\nall_model_checkpoint_paths: \"{0}\"\n", kCheckpointName));
}

ConvertReport report_of(const OpenedModel& source, const Plan& plan, const WatchedSource& tensors,
                        ConvertTarget target) {
  ConvertReport report;
  report.architecture = plan.model.architecture;
  report.from = name(source.format);
  report.to = name(target == ConvertTarget::checkpoint ? ModelFormat::checkpoint : ModelFormat::saved_model);
  report.remarks = plan.remarks;
  for (const TensorPlan& tensor : plan.plans) {
    const TensorInfo* info = tensors.find(tensor.tf);
    const TensorInfo* from = source.folder->find(tensor.hf.front());
    report.tensors.push_back({tensor.tf, tensor.hf, from ? from->dtype : info->dtype, info->dtype,
                              info->shape, in_words(tensor), tensors.sha256(tensor.tf),
                              plan.tensors->counts(tensor.tf)});
  }
  return report;
}

}  // namespace

Result<ConvertReport> convert_forward(const FileSystem& files, OpenedModel source,
                                      const std::string& destination, const ConvertOptions& options) {
  if (!options.like.empty() || options.without_mtp)
    return usage("convert_c4", "--like and --without-mtp are for the way back to Hugging Face");
  TANDEM_TRY(const auto plan, make_plan(files, source, options));
  TANDEM_CHECK(distinct_names(*plan->tensors));
  TANDEM_TRY(const uint64_t total, total_bytes(*plan->tensors));
  Meter meter(options, total);
  const WatchedSource tensors(*plan->tensors, std::ref(meter));
  const ConvertTarget target = options.to.value_or(ConvertTarget::saved_model);

  TANDEM_TRY(StagedFolder staged, StagedFolder::make(files, destination, options.force));
  TANDEM_CHECK(target == ConvertTarget::checkpoint
                   ? write_checkpoint_folder(files, staged.path(), *plan, tensors)
                   : write_saved_model_folder(files, staged.path(), plan->spec, plan->plans, tensors));
  ConvertReport report = report_of(source, *plan, tensors, target);
  report.bytes = meter.done();
  TANDEM_CHECK(no_overflow(report.tensors));
  TANDEM_CHECK(staged.commit(options.force));
  return report;
}

}  // namespace tandem
