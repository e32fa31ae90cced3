// tandem inspect: what lies at a path, and what would block a conversion. Reads headers only.

#include "arch/blocks/decoder.h"
#include "cli/command.h"
#include "convert/match_report.h"
#include "convert/named_tensors.h"
#include "convert/open_model.h"

namespace tandem {
namespace {

struct InspectOptions {
  std::string path;
  std::vector<std::string> accepted_keys;
  SafetensorsLimits limits;
};

constexpr const char* kFooter =
    "Examples:\n"
    "  tandem inspect ./deepseek-llm-7b        a Hugging Face folder (a config.json alone will do)\n"
    "  tandem inspect ./model.savedmodel       a TensorFlow SavedModel\n"
    "  tandem inspect --json ./ckpt/model      a TensorFlow checkpoint, by its prefix\n"
    "\n"
    "Ends 0, or 65 where something would block a conversion.";

/// What inspect found.
struct Findings {
  ModelFormat format;
  std::optional<Model> model;
  std::map<std::string, uint64_t> dtypes;  ///< tensors by dtype
  size_t tensors = 0;
  uint64_t bytes = 0;
  std::vector<std::string> shards;
  std::optional<StageManifest> stages;
  std::vector<std::string> remarks;
  std::vector<std::string> blocks;
};

Status count_tensors(const TensorSource& source, Findings& findings) {
  for (const TensorInfo& info : source.tensors()) {
    TANDEM_TRY(const uint64_t bytes, byte_count(info.dtype, info.shape));
    ++findings.dtypes[std::string(row(info.dtype).long_name)];
    findings.bytes += bytes;
    ++findings.tensors;
  }
  return {};
}

bool is_in(const std::optional<Record>& record, const std::string& hf) {
  return record && std::any_of(record->original.begin(), record->original.end(),
                               [&](const OriginalTensor& tensor) { return tensor.info.name == hf; });
}

void match_weights(const OpenedModel& opened, Findings& findings) {
  if (!findings.model) return;
  if (opened.folder && opened.folder->has_weights()) {
    const Match found = match(findings.model->rules, opened.tensors());
    for (const std::string& line : problems(found)) findings.blocks.push_back(line);
    for (const std::string& line : found.ignored) findings.remarks.push_back("not converted: " + line);
  } else if (opened.folder) {
    findings.remarks.push_back("no weights here: counts are the config's");
  } else {
    const RuleTable& rules = opened.record ? opened.record->rules : findings.model->rules;
    const NamedTensors named = find_named(opened.tensors(), rules);
    for (const std::string& line : named.wrong) findings.blocks.push_back(line);
    for (const MissingCarried& tensor : named.carried)
      if (!tensor.optional || is_in(opened.record, tensor.hf))
        findings.remarks.push_back("carried in the original, not here: " + tensor.tf);
  }
}

Result<Findings> find(const InspectOptions& options) {
  TANDEM_TRY(const OpenedModel opened,
             open_model(real_files(), options.path, {.limits = options.limits, .allow_no_weights = true}));
  Findings findings;
  findings.format = opened.format;
  findings.remarks = opened.remarks();
  TANDEM_CHECK(count_tensors(opened.tensors(), findings));
  if (opened.folder) findings.shards = opened.folder->shards();
  findings.stages = opened.stages;
  auto model = model_of(opened, {{options.accepted_keys.begin(), options.accepted_keys.end()}});
  if (model.ok() && opened.record) {  // what its graph runs, a prediction layer perhaps
    model.value().rules = opened.record->rules;
    if (Status counted = count_parameters(model.value()); !counted.ok())
      findings.blocks.push_back(counted.error().message());
  }
  if (model.ok())
    findings.model = std::move(model).value();
  else
    findings.blocks.push_back(model.error().message());
  match_weights(opened, findings);
  return findings;
}

Json to_json(const Findings& findings) {
  Json json{{"format", name(findings.format)}};
  if (findings.model) {
    json["architecture"] = findings.model->architecture;
    json["parameters"] = findings.model->parameters;
    json["active_parameters"] = findings.model->active_parameters;
    json["carried_parameters"] = findings.model->carried_parameters;
    json["dtype"] = row(findings.model->dtype).long_name;
  }
  json["tensors"] = findings.tensors;
  json["bytes"] = findings.bytes;
  json["dtypes"] = findings.dtypes;
  json["shards"] = findings.shards;
  if (findings.stages) json["stages"] = to_json(*findings.stages)["stages"];
  json["remarks"] = findings.remarks;
  json["blocks"] = findings.blocks;
  return json;
}

void print(const Findings& findings) {
  std::vector<std::vector<std::string>> rows{{"format", std::string(name(findings.format))}};
  if (const auto& model = findings.model) {
    rows.push_back({"architecture", model->architecture});
    rows.push_back({"parameters", with_commas(model->parameters)});
    rows.push_back({"active per token", with_commas(model->active_parameters)});
    if (model->carried_parameters)
      rows.push_back({"carried, not run", with_commas(model->carried_parameters)});
    rows.push_back({"dtype of the config", std::string(row(model->dtype).long_name)});
  }
  rows.push_back(
      {"tensors", fmt::format("{} ({})", with_commas(findings.tensors), human_bytes(findings.bytes))});
  for (const auto& [dtype, count] : findings.dtypes) rows.push_back({"  " + dtype, with_commas(count)});
  if (!findings.shards.empty()) rows.push_back({"shards", with_commas(findings.shards.size())});
  if (findings.stages)
    for (size_t i = 0; i < findings.stages->stages.size(); ++i) {
      const StageEntry& stage = findings.stages->stages[i];
      rows.push_back(
          {findings.stages->folder(i), fmt::format("layers {} to {} ({})", stage.first_layer,
                                                   stage.end_layer - 1, human_bytes(stage.bytes))});
    }
  for (const std::string& remark : findings.remarks) rows.push_back({"remark", remark});
  for (const std::string& block : findings.blocks) rows.push_back({"blocks", block});
  if (findings.blocks.empty()) rows.push_back({"blocks", "nothing"});
  print_table(rows);
}

Result<int> inspect(const InspectOptions& options, bool json) {
  TANDEM_TRY(const Findings findings, find(options));
  if (json)
    print_json(to_json(findings));
  else
    print(findings);
  return findings.blocks.empty() ? 0 : exit_code(ErrorKind::invalid);
}

}  // namespace

void add_inspect(CLI::App& app, Session& session) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* command =
      add_command(app, session, "inspect",
                  "Format, architecture, parameters, dtypes, and what would block a conversion", kFooter);
  command->add_option("PATH", options->path, "Folder, .safetensors file, SavedModel, or checkpoint prefix")
      ->required();
  add_accepted_keys(*command, options->accepted_keys);
  add_limits(*command, options->limits);
  command->callback([options, &session] { session.outcome = inspect(*options, session.json); });
}

}  // namespace tandem
