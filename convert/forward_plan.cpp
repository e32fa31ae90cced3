#include "convert/forward_plan.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "contract/check.h"
#include "contract/stages.h"
#include "contract/text.h"
#include "convert/direction.h"
#include "convert/match_report.h"
#include "convert/option_rules.h"
#include "convert/saved_model_folder.h"
#include "convert/side_files.h"
#include "convert/source_layout.h"
#include "convert/stored_frequencies.h"
#include "convert/structure_map.h"
#include "formats/hf_folder/names.h"
#include "lower/tf/lower_tf.h"

namespace tandem {
namespace {

/// The head is absent though the config says untied: with --allow-tied-head the config is made to say tied.
Status tie_head(OpenedModel& source, const ConvertOptions& options, ForwardPlan& plan) {
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

void remark_dtype(const OpenedModel& source, const ConvertOptions& options, ForwardPlan& plan) {
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
                         const ConvertOptions& options, ForwardPlan& plan) {
  TANDEM_TRY(const std::vector<std::string> lines,
             odd_frequencies(contract, ignored_names(found), *source.folder));
  if (options.strict && !lines.empty())
    return all_problems("convert_c6", "stored rotary tables", lines)
        .at(source.path)
        .because("the config's rope_theta or rope_scaling may be wrong");
  for (const std::string& line : lines) plan.remarks.push_back("warning: " + line);
  return {};
}

Status make_whole(const Contract& contract, const ConvertOptions& options, ForwardPlan& plan) {
  ForwardPart part;
  TANDEM_TRY(const std::string reduced, may_reduce(contract, options));
  if (!reduced.empty()) plan.remarks.push_back(reduced);
  TANDEM_TRY(part.model, lowerable(contract, in_graph(plan.plans),
                                   {.eos_token_ids = plan.model.eos_token_ids,
                                    .inlined = options.inlined,
                                    .matmul_precision = options.matmul_precision}));
  for (const TensorPlan& tensor : plan.plans) part.tensors.push_back(&tensor);
  plan.parts.push_back(std::move(part));
  return {};
}

/// The tensors of a stage: those of its weights; in the last also what the graph does not use (MTP).
std::vector<const TensorPlan*> tensors_of(const Contract& stage, bool last, const ForwardPlan& plan) {
  std::set<std::string_view> names;
  for (const WeightEntry& weight : stage.weights) names.insert(weight.name);
  std::vector<const TensorPlan*> tensors;
  for (const TensorPlan& tensor : plan.plans)
    if (tensor.row->in_graph ? names.contains(tensor.contract_name) : last) tensors.push_back(&tensor);
  return tensors;
}

Status make_stages(const Contract& contract, uint64_t count, ForwardPlan& plan) {
  TANDEM_TRY(const std::vector<LayerSpan> spans, stage_spans(contract, count));
  plan.stages.emplace(StageManifest{plan.model.architecture, {}});
  std::map<const TensorPlan*, int> stages_of;
  for (const LayerSpan& span : spans) {
    ForwardPart part;
    TANDEM_TRY(const Contract stage, stage_of(contract, span));
    TANDEM_TRY(part.model, lowerable(contract, in_graph(plan.plans), {.layers = span}));
    part.assets.push_back({std::string(kContractFile), print(stage)});
    part.tensors = tensors_of(stage, span == spans.back(), plan);
    StageEntry entry{span.begin, span.end, 0, hidden_states_before(contract, span.begin)};
    for (const TensorPlan* tensor : part.tensors) {
      const TensorInfo& info = *plan.tensors->find(tensor->tf);
      entry.bytes += byte_count(info.dtype, info.shape).value();
      if (++stages_of[tensor] == 2)
        plan.remarks.push_back(fmt::format("{} is in the first stage and in the last", tensor->tf));
    }
    plan.stages->stages.push_back(std::move(entry));
    plan.parts.push_back(std::move(part));
  }
  for (size_t i = 0; i < plan.parts.size(); ++i) plan.parts[i].folder = plan.stages->folder(i);
  return {};
}

Status make_graphs(const OpenedModel& source, const Match& found, const ConvertOptions& options,
                   ForwardPlan& plan) {
  TANDEM_TRY(const Contract contract,
             plan.model.contract(plan.rules, options.compute, storage_of(*plan.tensors)));
  if (options.with_mtp && !find_entry(contract, "draft"))
    return usage("convert_c4", "--with-mtp: the model has no layer of multi-token prediction")
        .at(join(source.path, "config.json"));
  TANDEM_CHECK(check(contract));
  TANDEM_CHECK(covers(contract, plan.plans));
  TANDEM_CHECK(check_frequencies(source, contract, found, options, plan));
  TANDEM_CHECK(options.stages ? make_stages(contract, *options.stages, plan)
                              : make_whole(contract, options, plan));
  for (ForwardPart& part : plan.parts) part.graph = checkpoint_object_graph(part.model.variables);
  for (const auto& [name, content] : source.side_files) plan.assets.push_back({name, content});
  plan.assets.push_back({std::string(kContractFile), print(contract)});
  plan.ignored = ignored_names(found);
  return {};
}

}  // namespace

Result<std::unique_ptr<ForwardPlan>> make_forward_plan(const FileSystem& files, OpenedModel& source,
                                                       const ConvertOptions& options, bool check_scales) {
  auto plan = std::make_unique<ForwardPlan>();
  plan->remarks = source.remarks();
  TANDEM_CHECK(tie_head(source, options, *plan));
  TANDEM_TRY(plan->model, model_of(source, {options.accepted_keys, options.with_mtp}));
  TANDEM_TRY(plan->rules, rules_for(files, plan->model, options));
  if (options.layout == WeightLayout::source) {
    TANDEM_TRY(plan->rules, in_source_layout(std::move(plan->rules), *source.folder));
  }
  const Match found = match(plan->rules, *source.folder);
  TANDEM_CHECK(all_matched(source, found));
  for (const std::string& line : found.ignored) plan->remarks.push_back("not converted: " + line);
  for (const RuleRow& row : plan->rules.rows)
    if (std::ranges::count(found.tied, row.hf) > 0)
      plan->tied.insert(plan->tied.end(), {row.hf, row.tied_to});
  TransformOptions transform;
  transform.dtype = options.dtype;
  transform.fp8_dtype = plan->model.dtype;
  transform.memory = transform_memory(options);
  transform.check_scales = check_scales;
  TANDEM_TRY(plan->tensors, ToTensorFlow::make(plan->rules, *source.folder, transform));
  plan->plans = expand(plan->rules);
  std::erase_if(plan->plans,
                [&](const TensorPlan& tensor) { return !plan->tensors->find(tensor.tf); });  // optional ones
  remark_dtype(source, options, *plan);
  TANDEM_CHECK(make_graphs(source, found, options, *plan));
  return plan;
}

Record record_of(const OpenedModel& source, const RuleTable& rules, const std::vector<std::string>& ignored) {
  const std::set<std::string, std::less<>> left_out(ignored.begin(), ignored.end());
  Record record{rules, {}};
  const auto& shards = source.folder->weight_map();
  for (const TensorInfo& info : source.folder->tensors()) {
    if (left_out.contains(info.name)) continue;
    const auto shard = shards.find(info.name);
    record.original.push_back({info, shard == shards.end() ? kSingleFile : shard->second});
  }
  return record;
}

}  // namespace tandem
