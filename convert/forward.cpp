// Hugging Face to TensorFlow.

#include <algorithm>
#include <set>
#include <utility>

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
#include "formats/saved_model/stage_manifest.h"
#include "formats/tensor_bundle/tensor_bundle.h"
#include "lower/tf/lower_tf.h"
#include "rules/transform.h"

namespace tandem {
namespace {

constexpr std::string_view kCheckpointName = "model";
constexpr size_t kMaxShards = 99'999;  // five digits in a data file's name

uint64_t aligned(uint64_t offset) {
  return (offset + kBundleAlignment - 1) / kBundleAlignment * kBundleAlignment;
}

/// One SavedModel of the output: all of it, or a stage.
struct Part {
  std::string folder;                      ///< inside the output; empty for the whole
  std::vector<const TensorPlan*> tensors;  ///< in the order in which they lie
  SavedModelSpec spec;
  std::string graph;            ///< the checkpoint's object graph
  size_t begin = 0, count = 0;  ///< its data shards among all
  size_t graph_shard = 0;       ///< of these, the one that begins with the object graph
};

/// All that is decided before the first byte is written.
struct Plan {
  Model model;
  RuleTable rules;
  std::unique_ptr<ToTensorFlow> tensors;
  std::vector<TensorPlan> plans;
  std::vector<Part> parts;
  std::optional<StageManifest> stages;  ///< of several parts
  std::vector<SavedAsset> assets;       ///< of the whole, less the record, which is as long as the checkpoint
                                        ///< has tensors
  std::vector<std::string> ignored;     ///< tensors that a rule ignores
  std::vector<std::string> tied;        ///< tied copies, and what they are compared with
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

Record record_of(const OpenedModel& source, const RuleTable& rules, const std::vector<std::string>& names) {
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

Status make_whole(const Contract& contract, const ConvertOptions& options, Plan& plan) {
  Part part;
  TANDEM_TRY(const std::string reduced, may_reduce(contract, options));
  if (!reduced.empty()) plan.remarks.push_back(reduced);
  TANDEM_TRY(part.spec, lower_to_tensorflow(contract, in_graph(plan.plans),
                                            {.eos_token_ids = plan.model.eos_token_ids,
                                             .inlined = options.inlined,
                                             .matmul_precision = options.matmul_precision}));
  for (const TensorPlan& tensor : plan.plans) part.tensors.push_back(&tensor);
  plan.parts.push_back(std::move(part));
  return {};
}

/// The tensors of a stage: those of its weights; in the last also what the graph does not use (MTP).
std::vector<const TensorPlan*> tensors_of(const Contract& stage, bool last, const Plan& plan) {
  std::set<std::string_view> names;
  for (const WeightEntry& weight : stage.weights) names.insert(weight.name);
  std::vector<const TensorPlan*> tensors;
  for (const TensorPlan& tensor : plan.plans)
    if (tensor.row->in_graph ? names.contains(tensor.contract_name) : last) tensors.push_back(&tensor);
  return tensors;
}

Status make_stages(const Contract& contract, uint64_t count, Plan& plan) {
  TANDEM_TRY(const std::vector<LayerSpan> spans, stage_spans(contract, count));
  plan.stages.emplace(StageManifest{plan.model.architecture, {}});
  std::map<const TensorPlan*, int> stages_of;
  for (const LayerSpan& span : spans) {
    Part part;
    TANDEM_TRY(const Contract stage, stage_of(contract, span));
    TANDEM_TRY(part.spec, lower_to_tensorflow(contract, in_graph(plan.plans), {.layers = span}));
    part.spec.assets.push_back({std::string(kContractFile), print(stage)});
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

Status make_graphs(const OpenedModel& source, const Match& found, const ConvertOptions& options, Plan& plan) {
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
  for (Part& part : plan.parts) part.graph = checkpoint_object_graph(part.spec);
  for (const auto& [name, content] : source.side_files) plan.assets.push_back({name, content});
  plan.assets.push_back({std::string(kContractFile), print(contract)});
  plan.ignored = ignored_names(found);
  return {};
}

Result<std::unique_ptr<Plan>> make_plan(const FileSystem& files, OpenedModel& source,
                                        const ConvertOptions& options, bool check_scales) {
  auto plan = std::make_unique<Plan>();
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

/// The tensors of a part in their order, in files of at most max_shard_bytes, and of one file of the source
/// where `file` says which one each belongs to.
std::vector<DataShard> bundle_shards(const Plan& plan, const Part& part, uint64_t graph_bytes,
                                     uint64_t max_shard_bytes,
                                     const std::function<std::string(const TensorPlan&)>& file) {
  std::vector<DataShard> shards(1);
  shards.back().bytes = graph_bytes;
  std::string before;
  for (const TensorPlan* tensor : part.tensors) {
    const TensorInfo* info = plan.tensors->find(tensor->tf);
    const uint64_t bytes = byte_count(info->dtype, info->shape).value();
    uint64_t begin = aligned(shards.back().bytes);
    const std::string from = file ? file(*tensor) : std::string();
    if (!shards.back().tensors.empty() &&
        (from != before || bytes > max_shard_bytes || begin > max_shard_bytes - bytes)) {
      shards.emplace_back();
      begin = 0;
    }
    shards.back().tensors.push_back(*info);
    shards.back().bytes = begin + bytes;
    before = from;
  }
  return shards;
}

BundleEntry graph_entry(const Part& part) { return string_entry(std::string(kObjectGraphKey), part.graph); }

/// The file of the source that holds a tensor.
std::string file_of(const OpenedModel& source, const std::string& tensor) {
  const auto& shards = source.folder->weight_map();
  const auto shard = shards.find(tensor);
  return shard == shards.end() ? kSingleFile : shard->second;
}

/// The tensors of the source that one is made of, scales included.
std::vector<std::string> sources_of(const TensorPlan& tensor, const HfFolder& folder) {
  std::vector<std::string> names = tensor.hf;
  for (const Step& step : tensor.row->steps)
    if (const auto* blocks = std::get_if<BlockDequantize>(&step))
      for (const std::string& name : tensor.hf)
        if (folder.find(name + blocks->scale_suffix)) names.push_back(name + blocks->scale_suffix);
  std::erase_if(names, [&](const std::string& name) { return !folder.find(name); });
  return names;
}

/// The last file of the source, by name, that a tensor is made of.
std::string last_file_of(const OpenedModel& source, const TensorPlan& tensor) {
  std::string last;
  for (const std::string& name : sources_of(tensor, *source.folder))
    last = std::max(last, file_of(source, name));
  return last;
}

/// The tensors in the order in which the last file that each is made of comes.
void order_by_file(const OpenedModel& source, Part& part) {
  std::map<const TensorPlan*, std::string> last;
  for (const TensorPlan* tensor : part.tensors) last[tensor] = last_file_of(source, *tensor);
  std::ranges::stable_sort(part.tensors, {}, [&](const TensorPlan* tensor) { return last[tensor]; });
}

class Forward : public Conversion {
 public:
  Forward(OpenedModel source, ConvertTarget target) : source_(std::move(source)), target_(target) {}

  Status plan(const FileSystem& files, const ConvertOptions& options, bool check_scales) {
    pieces_ = piece_options(options);
    threads_ = options.threads;
    TANDEM_CHECK(options_go_together(source_, options));
    TANDEM_TRY(plan_, make_plan(files, source_, options, check_scales));
    TANDEM_CHECK(distinct_names(*plan_->tensors));
    TANDEM_CHECK(options.layout == WeightLayout::source ? shards_of_source(files, options)
                                                        : shards_of_our_own(options));
    TANDEM_TRY(inputs_, input_files(files, {&source_}, options.map_file));
    return options.delete_source ? find_consumed(files) : Status{};
  }

  const std::vector<DataShard>& shards() const override { return shards_; }
  const std::vector<InputFile>& inputs() const override { return inputs_; }
  const std::map<std::string, std::vector<size_t>>& consumed_files() const override { return consumed_; }
  std::string linked_file(size_t index) const override {
    return index < sources_.size() && place_ != Place::copy ? sources_[index].path : "";
  }

  Result<WrittenShard> write(size_t index, std::unique_ptr<WritableFile> file,
                             const OnBytes& on_bytes) const override {
    const DataShard& shard = shards_[index];
    if (index < sources_.size())
      return write_source_shard(*files_, shard, sources_[index], threads_, std::move(file), on_bytes);
    const Part& part = part_of(index);
    const WatchedSource watched(*plan_->tensors, on_bytes);
    if (!file) file = std::make_unique<NullFile>();
    BundleShardWriter writer(std::move(file), static_cast<uint32_t>(index - part.begin), pieces_);
    if (index == part.graph_shard) TANDEM_CHECK(writer.add_string(std::string(kObjectGraphKey), part.graph));
    std::vector<uint32_t> crcs;
    for (const TensorInfo& tensor : shard.tensors) {
      TANDEM_CHECK(writer.add(
          value_key(tensor.name), tensor.dtype, tensor.shape,
          [&](uint64_t offset, std::span<std::byte> out) { return watched.read(tensor.name, offset, out); }));
    }
    TANDEM_TRY(FileSums sums, writer.close());
    const size_t first = index == part.graph_shard ? 1 : 0;  // behind the object graph
    for (const BundleEntry& entry : std::span(writer.entries()).subspan(first))
      crcs.push_back(unmask_crc(entry.masked_crc));
    return written_shard(shard, std::move(sums), crcs,
                         [&](const std::string& name) { return plan_->tensors->counts(name); });
  }

  Status finish(const FileSystem& files, const std::string& folder,
                const std::vector<WrittenShard>& written) override {
    std::vector<SavedAsset> assets = plan_->assets;
    assets.push_back({std::string(kRecordFile), to_text(record_of(source_, plan_->rules, plan_->ignored))});
    for (Part& part : plan_->parts) {
      TANDEM_CHECK(write_bundle_index(files, join(folder, prefix(part)), static_cast<uint32_t>(part.count),
                                      entries(part, written)));
      if (target_ == ConvertTarget::checkpoint) continue;
      SavedModelSpec spec = std::exchange(part.spec, {});
      if (!plan_->stages) spec.assets.insert(spec.assets.end(), assets.begin(), assets.end());
      TANDEM_CHECK(write_saved_model(files, join(folder, part.folder), std::move(spec)));
    }
    if (target_ == ConvertTarget::saved_model && !plan_->stages) return {};
    for (const SavedAsset& asset : assets)
      TANDEM_CHECK(write_text(files, join(folder, asset.name), asset.content));
    if (plan_->stages) return write_text(files, join(folder, kStagesFile), to_text(*plan_->stages));
    return write_text(files, join(folder, "checkpoint"),
                      fmt::format("model_checkpoint_path: \"{0}\"\nall_model_checkpoint_paths: \"{0}\"\n",
                                  kCheckpointName));
  }

  ConvertReport report(const std::vector<WrittenShard>& written) const override {
    std::map<std::string_view, const WrittenTensor*> sums;
    for (const WrittenShard& shard : written)
      for (const WrittenTensor& tensor : shard.tensors) sums[tensor.name] = &tensor;
    ConvertReport report;
    report.architecture = plan_->model.architecture;
    report.from = name(source_.format);
    report.to = name(plan_->stages                          ? ModelFormat::staged
                     : target_ == ConvertTarget::checkpoint ? ModelFormat::checkpoint
                                                            : ModelFormat::saved_model);
    report.remarks = plan_->remarks;
    for (const TensorPlan& tensor : plan_->plans) {
      const TensorInfo* info = plan_->tensors->find(tensor.tf);
      const TensorInfo* from = source_.folder->find(tensor.hf.front());
      const auto found = sums.find(tensor.tf);
      report.tensors.push_back({tensor.tf, tensor.hf, from ? from->dtype : info->dtype, info->dtype,
                                info->shape, in_words(tensor),
                                found == sums.end() ? 0 : found->second->crc32c,
                                found == sums.end() ? CastCounts{} : found->second->counts});
      report.bytes += byte_count(info->dtype, info->shape).value();
    }
    return report;
  }

  uint64_t rest_bytes() const override {
    uint64_t bytes = 1 << 20;
    for (const Part& part : plan_->parts) {
      bytes += 4 * part.graph.size();  // the index, and the graph beside it
      for (const SavedAsset& asset : part.spec.assets) bytes += asset.content.size();
    }
    for (const SavedAsset& asset : plan_->assets) bytes += asset.content.size();
    for (const TensorInfo& info : source_.folder->tensors()) bytes += info.name.size() + 150;  // the record
    return bytes;
  }

 private:
  std::string prefix(const Part& part) const {
    return target_ == ConvertTarget::checkpoint ? std::string(kCheckpointName)
                                                : join(part.folder, "variables/variables");
  }

  const Part& part_of(size_t shard) const {
    return *std::ranges::find_if(plan_->parts,
                                 [&](const Part& part) { return shard < part.begin + part.count; });
  }

  std::vector<BundleEntry> entries(const Part& part, const std::vector<WrittenShard>& written) const {
    std::vector<BundleEntry> entries{graph_entry(part)};
    entries.front().shard = static_cast<uint32_t>(part.graph_shard - part.begin);
    for (size_t i = part.begin; i < part.begin + part.count; ++i) {
      uint64_t end = i == part.graph_shard ? entries.front().bytes : 0;
      for (size_t j = 0; j < shards_[i].tensors.size(); ++j) {
        const TensorInfo& info = shards_[i].tensors[j];
        const uint64_t bytes = byte_count(info.dtype, info.shape).value();
        const uint64_t begin = i < sources_.size() ? sources_[i].offsets[j] : aligned(end);
        entries.push_back({value_key(info.name), row(info.dtype).tensorflow, info.shape,
                           static_cast<uint32_t>(i - part.begin), begin, bytes,
                           mask_crc(written[i].tensors[j].crc32c)});
        end = begin + bytes;
      }
    }
    return entries;
  }

  Status shards_of_our_own(const ConvertOptions& options) {
    for (Part& part : plan_->parts) {
      part.begin = part.graph_shard = shards_.size();
      std::function<std::string(const TensorPlan&)> file;
      if (options.delete_source) {
        order_by_file(source_, part);
        file = [this](const TensorPlan& tensor) { return last_file_of(source_, tensor); };
      }
      std::ranges::move(bundle_shards(*plan_, part, graph_entry(part).bytes,
                                      options.max_shard_bytes.value_or(kDefaultShardBytes), file),
                        std::back_inserter(shards_));
      part.count = shards_.size() - part.begin;
    }
    return name_shards();
  }

  /// The safetensors files, and behind them one of our own for the object graph.
  Status shards_of_source(const FileSystem& files, const ConvertOptions& options) {
    if (options.dtype || options.max_shard_bytes)
      return usage("convert_c4",
                   "--layout source takes tensors and files as they are: leave out --dtype and "
                   "--max-shard-size");
    files_ = &files;
    place_ = options.place;
    TANDEM_CHECK(source_shards(files, source_, plan_->rules, plan_->plans, *plan_->tensors, options.limits,
                               shards_, sources_));
    Part& whole = plan_->parts.front();
    shards_.push_back({{}, {}, graph_entry(whole).bytes});
    whole.count = shards_.size();
    whole.graph_shard = shards_.size() - 1;
    constexpr std::string_view kPlaced[] = {
        "are hard links to the files of SRC: who writes into one changes the other",
        "are clones of the files of SRC, which share their blocks until one is written to",
        "are copies of the files of SRC"};
    plan_->remarks.push_back(fmt::format("--layout source: kernels stay [out, in], and the data shards {}",
                                         kPlaced[static_cast<size_t>(place_)]));
    return name_shards();
  }

  /// Which tasks read which files. A file that holds anything else is not deleted, and said to stay.
  Status find_consumed(const FileSystem& files) {
    for (const Part& part : plan_->parts) {  // what could fail at the very end fails here
      TANDEM_TRY(const tensorflow::SavedModel model, assemble(part.spec));
      (void)model;
    }
    std::map<std::string, std::vector<std::string>> sources;  // of each tensor, with scales
    for (const TensorPlan& tensor : plan_->plans) sources[tensor.tf] = sources_of(tensor, *source_.folder);
    std::map<std::string, std::set<size_t>> readers;
    std::set<std::string> carried;
    for (size_t task = 0; task < shards_.size(); ++task)
      for (const TensorInfo& info : shards_[task].tensors)
        for (const std::string& name : sources.at(info.name)) {
          readers[file_of(source_, name)].insert(task);
          carried.insert(name);
        }
    std::set<std::string> stay;  // and what a tied copy is compared with when it is planned again
    for (const TensorInfo& info : source_.folder->tensors())
      if (!carried.contains(info.name)) stay.insert(file_of(source_, info.name));
    for (const std::string& name : plan_->tied) stay.insert(file_of(source_, name));
    for (const auto& [file, tasks] : readers) {
      const std::string path = absolute_path(join(source_.path, file));
      TANDEM_TRY(const std::string real, files.resolve(path));
      TANDEM_TRY(const std::string folder, files.resolve(source_.path));
      if (real != join(folder, file))
        return usage("convert_c4", "--delete-source-as-done: the file is a link to {}", real)
            .at(path)
            .because("name the folder that holds the files themselves");
      if (stay.contains(file))
        plan_->remarks.push_back(fmt::format("stays: {} holds tensors that are not carried over", path));
      else
        consumed_[path] = {tasks.begin(), tasks.end()};
    }
    plan_->remarks.push_back(fmt::format(
        "--delete-source-as-done: {} files of weights of {} are deleted, each once all that is in it was "
        "written, synced and read back",
        consumed_.size(), source_.path));
    return {};
  }

  Status name_shards() {
    for (const Part& part : plan_->parts) {
      if (part.count > kMaxShards)
        return invalid("convert_c4", "{} data shards, TensorFlow knows {} at most", part.count, kMaxShards)
            .because("a larger --max-shard-size makes fewer");
      const auto count = static_cast<uint32_t>(part.count);
      for (uint32_t i = 0; i < count; ++i)
        shards_[part.begin + i].file = bundle_shard_name(prefix(part), i, count);
    }
    return {};
  }

  OpenedModel source_;
  ConvertTarget target_;
  const FileSystem* files_ = nullptr;
  Place place_ = Place::copy;
  PieceOptions pieces_;
  unsigned threads_ = 1;
  std::vector<SourceShard> sources_;  ///< the first shards, if they are files of the source
  std::unique_ptr<Plan> plan_;
  std::vector<DataShard> shards_;
  std::vector<InputFile> inputs_;
  std::map<std::string, std::vector<size_t>> consumed_;
};

}  // namespace

Result<std::unique_ptr<Conversion>> plan_forward(const FileSystem& files, OpenedModel source,
                                                 const ConvertOptions& options, bool check_scales) {
  if (!options.like.empty() || options.without_mtp)
    return usage("convert_c4", "--like and --without-mtp are for the way back to Hugging Face");
  auto conversion =
      std::make_unique<Forward>(std::move(source), options.to.value_or(ConvertTarget::saved_model));
  TANDEM_CHECK(conversion->plan(files, options, check_scales));
  return std::unique_ptr<Conversion>(std::move(conversion));
}

}  // namespace tandem
