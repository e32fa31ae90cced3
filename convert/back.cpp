// TensorFlow to Hugging Face, also after training on the TensorFlow side.

#include <algorithm>
#include <set>

#include "convert/direction.h"
#include "convert/match_report.h"
#include "convert/named_tensors.h"
#include "convert/side_files.h"
#include "convert/structure_map.h"
#include "rules/transform.h"

namespace tandem {
namespace {

/// What is known of the checkpoint that the model was made from: by its record, or by --like.
struct Origin {
  RuleTable rules;
  std::map<std::string, OriginalTensor> tensors;
  std::map<std::string, std::string> side_files;
  Json config;
};

/// All that is decided before the first byte is written. Not movable: its parts point at each other.
struct Plan {
  Origin origin;
  std::optional<OpenedModel> like;
  TensorView bundle;       ///< the tensors of the source by the names of the rules
  TensorView like_folder;  ///< a --like on the Hugging Face side, less what is carried
  TensorView like_bundle;  ///< a --like on the TensorFlow side, by the names of the rules
  RuleTable made;          ///< rows whose tensors the source has
  RuleTable carried;       ///< rows whose tensors come from --like
  std::unique_ptr<ToHuggingFace> back;
  std::unique_ptr<ToHuggingFace> carried_back;
  TensorView out;
  std::vector<std::string> remarks;
};

Status read_like(const FileSystem& files, const ConvertOptions& options, Plan& plan) {
  if (options.like.empty()) return {};
  TANDEM_TRY(plan.like, open_model(files, options.like, {.limits = options.limits}));
  if (plan.like->bundle && !plan.like->record)
    return missing("convert_c4", "--like is a TensorFlow checkpoint without {}", kRecordFile)
        .at(options.like)
        .because("name the original Hugging Face folder, or a SavedModel that tandem made");
  return {};
}

void take_record(const Record& record, Origin& origin) {
  for (const OriginalTensor& tensor : record.original) origin.tensors[tensor.info.name] = tensor;
}

void take_folder(const HfFolder& folder, Origin& origin) {
  for (const TensorInfo& info : folder.tensors()) {
    const auto shard = folder.weight_map().find(info.name);
    origin.tensors[info.name] = {info,
                                 shard == folder.weight_map().end() ? "model.safetensors" : shard->second};
  }
}

std::set<std::string> names_and_shapes(const RuleTable& rules) {
  std::set<std::string> lines;
  for (const TensorPlan& plan : expand(rules))
    for (const std::string& name : plan.hf) lines.insert(name + " " + to_string(plan.hf_shape));
  return lines;
}

/// A map may give other TensorFlow names and layouts; what it makes on the Hugging Face side follows from the
/// config alone. A config that is not understood here cannot be asked.
Status record_fits_config(const OpenedModel& source, const ConvertOptions& options) {
  if (!source.record || source.config.is_null()) return {};
  const auto model = model_of(source, {options.accepted_keys});
  if (!model.ok()) return {};
  const std::set<std::string> recorded = names_and_shapes(source.record->rules);
  const std::set<std::string> expected = names_and_shapes(model.value().rules);
  std::vector<std::string> lines;
  for (const std::string& line : expected)
    if (!recorded.contains(line)) lines.push_back("missing: " + line);
  for (const std::string& line : recorded)
    if (!expected.contains(line)) lines.push_back("unexpected: " + line);
  if (lines.empty()) return {};
  return all_problems("convert_c1", fmt::format("{} does not fit config.json", kRecordFile), lines)
      .at(source.path)
      .because("was one of them edited?");
}

/// Rules are the source's own where it has them: its map may have been edited.
Result<RuleTable> rules_of(const OpenedModel& source, const Plan& plan, const ConvertOptions& options) {
  if (source.record) return source.record->rules;
  if (plan.like && plan.like->record) return plan.like->record->rules;
  TANDEM_TRY(Model model, model_of(plan.like ? *plan.like : source, {options.accepted_keys}));
  return std::move(model.rules);
}

Status find_origin(const OpenedModel& source, const ConvertOptions& options, Plan& plan) {
  if (!source.record && !plan.like)
    return missing("convert_c4", "the model does not say where it comes from: it has no {}", kRecordFile)
        .at(source.path)
        .because("--like ORIGINAL names the Hugging Face folder, or a SavedModel that tandem made");
  TANDEM_CHECK(record_fits_config(source, options));
  const OpenedModel& known = plan.like ? *plan.like : source;
  TANDEM_TRY(plan.origin.rules, rules_of(source, plan, options));
  if (known.folder)
    take_folder(*known.folder, plan.origin);
  else
    take_record(*known.record, plan.origin);
  plan.origin.side_files = known.side_files;
  plan.origin.side_files.erase(std::string(kRecordFile));
  plan.origin.side_files.erase(std::string(kContractFile));
  plan.origin.config = known.config;
  return {};
}

Status like_fits(const Plan& plan) {
  if (!plan.like || !plan.like->folder) return {};
  const std::vector<std::string> lines = problems(match(plan.origin.rules, *plan.like->folder));
  if (lines.empty()) return {};
  return all_problems("convert_c1", "--like is of another model", lines).at(plan.like->path);
}

void remark_unused(const TensorBundle& bundle, const TensorView& used, Plan& plan) {
  const size_t unused = bundle.tensors().size() - used.tensors().size();
  if (unused == 0) return;
  plan.remarks.push_back(
      fmt::format("{} entries of the checkpoint are no weights of the model (optimizer slots, counters) and "
                  "were left out",
                  unused));
}

/// Of the missing carried tensors those that the original had, a line each.
std::vector<std::string> lost(const std::vector<MissingCarried>& carried, const Origin& origin) {
  std::vector<std::string> lines;
  for (const MissingCarried& tensor : carried)
    if (!tensor.optional || origin.tensors.contains(tensor.hf)) lines.push_back("missing: " + tensor.tf);
  return lines;
}

Status decide_carried(const OpenedModel& source, const ConvertOptions& options,
                      const std::vector<std::string>& carried, Plan& plan) {
  plan.made = plan.origin.rules;
  if (carried.empty()) return {};
  plan.made = rows_where(plan.origin.rules, true);
  if (options.without_mtp) {
    plan.remarks.push_back(
        fmt::format("left out, as --without-mtp asks: {} carried tensors", carried.size()));
    return {};
  }
  if (!plan.like)
    return all_problems("convert_c3", "tensors that the graph does not use (MTP) are not in this checkpoint",
                        carried)
        .at(source.path)
        .because(
            "saving from Python keeps variables only; --like ORIGINAL takes them from there, --without-mtp "
            "leaves them out");
  plan.carried = rows_where(plan.origin.rules, false);
  plan.remarks.push_back(fmt::format("taken from {}: {} carried tensors", plan.like->path, carried.size()));
  return {};
}

Status find_tensors(const OpenedModel& source, const ConvertOptions& options, Plan& plan) {
  NamedTensors named = find_named(*source.bundle, plan.origin.rules);
  if (!named.wrong.empty())
    return all_problems("convert_c1", "the checkpoint does not fit the rules", named.wrong).at(source.path);
  plan.bundle = std::move(named.view);
  remark_unused(*source.bundle, plan.bundle, plan);
  return decide_carried(source, options, lost(named.carried, plan.origin), plan);
}

/// Names of a table's tensors on the Hugging Face side, with scales.
std::vector<std::string> hf_names(const RuleTable& table) {
  std::vector<std::string> names;
  for (const TensorPlan& plan : expand(table))
    for (const std::string& name : plan.hf) {
      names.push_back(name);
      for (const Step& step : plan.row->steps)
        if (const auto* blocks = std::get_if<BlockDequantize>(&step))
          names.push_back(name + blocks->scale_suffix);
    }
  return names;
}

Status add_carried(Plan& plan) {
  if (plan.carried.rows.empty()) return {};
  if (plan.like->folder) {
    for (const std::string& name : hf_names(plan.carried))
      if (const TensorInfo* info = plan.like->folder->find(name))
        plan.out.add(*info, *plan.like->folder, name);
    return {};
  }
  NamedTensors named = find_named(*plan.like->bundle, plan.carried);
  if (const auto lines = lost(named.carried, plan.origin); !lines.empty())
    return all_problems("convert_c3", "--like lacks carried tensors too", lines).at(plan.like->path);
  plan.like_bundle = std::move(named.view);
  TANDEM_TRY(plan.carried_back, ToHuggingFace::make(plan.carried, plan.like_bundle, {}));
  plan.out.add_all(*plan.carried_back);
  return {};
}

/// A tied tensor comes back under the names that it had: one of the two, or both.
void add_ties(Plan& plan) {
  for (const RuleRow& row : plan.origin.rules.rows) {
    const TensorInfo* shared = row.tied_to.empty() ? nullptr : plan.back->find(row.tied_to);
    if (!shared || plan.back->find(row.hf) || !plan.origin.tensors.contains(row.hf)) continue;
    plan.out.add({row.hf, shared->dtype, shared->shape}, *plan.back, row.tied_to);
    plan.remarks.push_back(fmt::format("tied: written as {}, as in the original", row.hf));
  }
}

/// True for the name that the original lacks because it kept the tied copy alone.
bool kept_under_other_name(const Plan& plan, const std::string& name) {
  if (plan.origin.tensors.contains(name)) return false;
  for (const RuleRow& row : plan.origin.rules.rows)
    if (row.tied_to == name && plan.origin.tensors.contains(row.hf)) return true;
  return false;
}

/// ToHuggingFace asks of its `like` what the rows in `made` need, and copies the rest of it.
const TensorSource* like_of(Plan& plan) {
  if (!plan.like || !plan.like->folder) return nullptr;
  const bool all_made = plan.made.rows.size() == plan.origin.rules.rows.size();
  const std::vector<std::string> carried =
      hf_names(all_made ? RuleTable{} : rows_where(plan.origin.rules, false));
  const std::set<std::string> apart(carried.begin(), carried.end());
  for (const TensorInfo& info : plan.like->folder->tensors())
    if (!apart.contains(info.name)) plan.like_folder.add(info, *plan.like->folder, info.name);
  return &plan.like_folder;
}

Status make_output(const ConvertOptions& options, Plan& plan) {
  BackOptions back;
  back.like = like_of(plan);
  back.dtype = options.dtype;
  TANDEM_TRY(plan.back, ToHuggingFace::make(plan.made, plan.bundle, back));
  for (const TensorInfo& info : plan.back->tensors())
    if (!kept_under_other_name(plan, info.name)) plan.out.add(info, *plan.back, info.name);
  for (const std::string& name : plan.back->copied())
    plan.remarks.push_back("copied from --like as it is: " + name);
  add_ties(plan);
  TANDEM_CHECK(add_carried(plan));
  plan.out.sort();
  return {};
}

bool has_fp8(const TensorSource& source) {
  return std::any_of(source.tensors().begin(), source.tensors().end(),
                     [](const TensorInfo& info) { return info.dtype == DType::f8_e4m3; });
}

/// The one dtype that all weights without a dtype of their own now have, if it is another than in the
/// original.
std::optional<DType> changed_dtype(const Plan& plan) {
  const std::optional<DType> config_dtype =
      dtype_named(plan.origin.config.value(dtype_key(plan.origin.config), ""));
  std::optional<DType> now;
  bool changed = false;
  for (const TensorPlan& tensor : expand(plan.made)) {
    const TensorInfo* info = plan.out.find(tensor.hf.front());
    const auto before = plan.origin.tensors.find(tensor.hf.front());
    if (tensor.row->dtype != "keep" || !info || before == plan.origin.tensors.end()) continue;
    if (now.value_or(info->dtype) != info->dtype) return {};
    now = info->dtype;
    const DType was = before->second.info.dtype;
    changed |= was == DType::f8_e4m3 ? config_dtype && *config_dtype != info->dtype : was != info->dtype;
  }
  return changed ? now : std::nullopt;
}

Status edit_config(Plan& plan) {
  const auto config = plan.origin.side_files.find("config.json");
  if (config == plan.origin.side_files.end()) return {};
  if (plan.origin.config.contains("quantization_config") && !has_fp8(plan.out)) {
    TANDEM_TRY(config->second, without_key(config->second, "quantization_config"));
    plan.remarks.push_back(
        "config.json: quantization_config removed, since the weights are not fp8 any more (--like ORIGINAL "
        "remakes them)");
  }
  if (const std::optional<DType> dtype = changed_dtype(plan)) {
    const std::string key = dtype_key(plan.origin.config);
    TANDEM_TRY(config->second, with_key(config->second, key, row(*dtype).long_name));
    plan.remarks.push_back(fmt::format("config.json: {} is now {}; --dtype or --like gives another", key,
                                       row(*dtype).long_name));
  }
  return {};
}

Status write_folder(const FileSystem& files, const std::string& folder, const Plan& plan,
                    const TensorSource& tensors) {
  HfWriteOptions write;
  for (const TensorInfo& info : plan.out.tensors()) {
    const auto original = plan.origin.tensors.find(info.name);
    if (original != plan.origin.tensors.end()) write.shard_of[info.name] = original->second.shard;
  }
  TANDEM_CHECK(write_hf_weights(files, folder, tensors, write));
  for (const auto& [name, content] : plan.origin.side_files) {
    TANDEM_CHECK(write_text(files, join(folder, name), content));
  }
  return {};
}

ConvertReport report_of(const OpenedModel& source, const Plan& plan, const WatchedSource& tensors) {
  std::map<std::string, const TensorPlan*> made_from;
  const std::vector<TensorPlan> plans = expand(plan.made);
  for (const TensorPlan& tensor : plans)
    for (const std::string& hf : tensor.hf) made_from[hf] = &tensor;
  ConvertReport report;
  report.architecture = plan.origin.rules.architecture;
  report.from = name(source.format);
  report.to = name(ModelFormat::hf_folder);
  report.remarks = plan.remarks;
  for (const std::string& name : plan.back->remade_scales())
    report.remarks.push_back("scales remade, since trained values no longer fit the original's: " + name);
  for (const TensorInfo& info : plan.out.tensors()) {
    ConvertedTensor line{info.name, {}, info.dtype, info.dtype, info.shape, {}, tensors.sha256(info.name),
                         {}};
    if (plan.back->find(info.name)) line.counts = plan.back->counts(info.name);
    if (const auto found = made_from.find(info.name); found != made_from.end()) {
      line.from = {found->second->tf};
      line.from_dtype = plan.bundle.find(found->second->tf)->dtype;
      line.steps = in_words(*found->second);
    }
    report.tensors.push_back(std::move(line));
  }
  return report;
}

Status refuse_odd_options(const ConvertOptions& options) {
  if (!options.like.empty() && options.dtype)
    return usage("convert_c4", "--like gives the dtypes: leave out --dtype");
  if (!options.map_file.empty() || options.allow_tied_head)
    return usage("convert_c4", "--map and --allow-tied-head are for the way to TensorFlow");
  return {};
}

// A flipped bit must not pass into a file whose own checksums would then be right.
Status undamaged(const OpenedModel& source, const Plan& plan) {
  TANDEM_CHECK(source.bundle->verify_checksums());
  if (!plan.like || !plan.like->bundle) return {};
  return plan.like->bundle->verify_checksums();
}

}  // namespace

Result<ConvertReport> convert_back(const FileSystem& files, OpenedModel source,
                                   const std::string& destination, const ConvertOptions& options) {
  TANDEM_CHECK(refuse_odd_options(options));
  Plan plan;
  TANDEM_CHECK(read_like(files, options, plan));
  TANDEM_CHECK(find_origin(source, options, plan));
  TANDEM_CHECK(like_fits(plan));
  TANDEM_CHECK(find_tensors(source, options, plan));
  TANDEM_CHECK(make_output(options, plan));
  TANDEM_CHECK(edit_config(plan));
  TANDEM_CHECK(distinct_names(plan.out));
  TANDEM_CHECK(undamaged(source, plan));
  TANDEM_TRY(const uint64_t total, total_bytes(plan.out));
  Meter meter(options, total);
  const WatchedSource tensors(plan.out, std::ref(meter));

  TANDEM_TRY(StagedFolder staged, StagedFolder::make(files, destination, options.force));
  TANDEM_CHECK(write_folder(files, staged.path(), plan, tensors));
  ConvertReport report = report_of(source, plan, tensors);
  report.bytes = meter.done();
  TANDEM_CHECK(no_overflow(report.tensors));
  TANDEM_CHECK(staged.commit(options.force));
  return report;
}

}  // namespace tandem
