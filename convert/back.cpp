// TensorFlow to Hugging Face, also after training on the TensorFlow side.

#include <algorithm>
#include <mutex>
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
  const bool has_config = source.side_files.contains("config.json");
  if (!source.record && !has_config && source.side_files.contains(std::string(kContractFile)))
    return unsupported("convert_c4", "one stage of a model does not go back by itself")
        .at(source.path)
        .because("name the folder with stages.json, which holds all of them");
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
  back.memory = transform_memory(options);
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

Status refuse_odd_options(const ConvertOptions& options) {
  if (!options.like.empty() && options.dtype)
    return usage("convert_c4", "--like gives the dtypes: leave out --dtype");
  if (options.layout != WeightLayout::tensorflow || options.stages)
    return usage("convert_c4", "--layout and --stages are for the way to TensorFlow");
  if (options.with_mtp) return usage("convert_c4", "--with-mtp is for the way to TensorFlow");
  if (options.delete_source)
    return usage("convert_c4", "--delete-source-as-done is for the way to TensorFlow");
  if (!options.map_file.empty() || options.allow_tied_head)
    return usage("convert_c4", "--map and --allow-tied-head are for the way to TensorFlow");
  return {};
}

/// The TensorFlow tensor behind each Hugging Face name: of weights, tied copies and remade scales.
std::map<std::string, std::string> tensors_read(const RuleTable& rules,
                                                const std::map<std::string, const TensorPlan*>& made_from) {
  std::map<std::string, std::string> reads;
  for (const auto& [hf, plan] : made_from) {
    reads[hf] = plan->tf;
    for (const Step& step : plan->row->steps)
      if (const auto* blocks = std::get_if<BlockDequantize>(&step))
        reads[hf + blocks->scale_suffix] = plan->tf;
  }
  for (const RuleRow& row : rules.rows)
    if (const auto shared = made_from.find(row.tied_to); shared != made_from.end())
      reads[row.hf] = shared->second->tf;
  return reads;
}

class Back : public Conversion {
 public:
  explicit Back(OpenedModel source) : source_(std::move(source)) {}

  Status plan(const FileSystem& files, const ConvertOptions& options) {
    pieces_ = piece_options(options);
    TANDEM_CHECK(read_like(files, options, plan_));
    TANDEM_CHECK(find_origin(source_, options, plan_));
    TANDEM_CHECK(like_fits(plan_));
    TANDEM_CHECK(find_tensors(source_, options, plan_));
    TANDEM_CHECK(make_output(options, plan_));
    TANDEM_CHECK(edit_config(plan_));
    TANDEM_CHECK(distinct_names(plan_.out));
    made_ = expand(plan_.made);
    for (const TensorPlan& tensor : made_)
      for (const std::string& hf : tensor.hf) made_from_[hf] = &tensor;
    reads_ = tensors_read(plan_.origin.rules, made_from_);
    TANDEM_CHECK(split(options));
    std::vector<const OpenedModel*> models{&source_};
    if (plan_.like) models.push_back(&*plan_.like);
    TANDEM_TRY(inputs_, input_files(files, models, {}));
    return {};
  }

  const std::vector<DataShard>& shards() const override { return shards_; }
  const std::vector<InputFile>& inputs() const override { return inputs_; }

  Result<WrittenShard> write(size_t index, std::unique_ptr<WritableFile> file,
                             const OnBytes& on_bytes) const override {
    const DataShard& shard = shards_[index];
    TANDEM_CHECK(undamaged(shard));
    const WatchedSource watched(plan_.out, on_bytes);
    if (!file) file = std::make_unique<NullFile>();
    PieceFile pieces(std::move(file), pieces_);
    TANDEM_CHECK(write_safetensors(pieces, watched, shard.tensors));
    TANDEM_TRY(FileSums sums, pieces.close());
    const std::span crcs = std::span(pieces.crcs()).subspan(1);  // behind the header
    TANDEM_TRY(WrittenShard written,
               written_shard(shard, std::move(sums), crcs, [&](const std::string& name) {
                 return plan_.back->find(name) ? plan_.back->counts(name) : CastCounts{};
               }));
    const std::vector<std::string> remade = plan_.back->remade_scales();
    for (WrittenTensor& tensor : written.tensors)
      tensor.remade_scales = std::find(remade.begin(), remade.end(), tensor.name) != remade.end();
    return written;
  }

  Status finish(const FileSystem& files, const std::string& folder,
                const std::vector<WrittenShard>&) override {
    std::vector<HfShard> shards;
    for (const DataShard& shard : shards_) shards.push_back({shard.file, shard.tensors});
    TANDEM_CHECK(write_hf_index(files, folder, shards));
    for (const auto& [name, content] : plan_.origin.side_files)
      TANDEM_CHECK(write_text(files, join(folder, name), content));
    return {};
  }

  ConvertReport report(const std::vector<WrittenShard>& written) const override {
    std::map<std::string_view, const WrittenTensor*> sums;
    for (const WrittenShard& shard : written)
      for (const WrittenTensor& tensor : shard.tensors) sums[tensor.name] = &tensor;
    ConvertReport report;
    report.architecture = plan_.origin.rules.architecture;
    report.from = name(source_.format);
    report.to = name(ModelFormat::hf_folder);
    report.remarks = plan_.remarks;
    for (const TensorInfo& info : plan_.out.tensors()) {
      ConvertedTensor line{info.name, {}, info.dtype, info.dtype, info.shape, {}, {}, {}};
      if (const auto found = sums.find(info.name); found != sums.end()) {
        line.crc32c = found->second->crc32c;
        line.counts = found->second->counts;
        if (found->second->remade_scales)
          report.remarks.push_back("scales remade, since trained values no longer fit the original's: " +
                                   info.name);
      }
      if (const auto found = made_from_.find(info.name); found != made_from_.end()) {
        line.from = {found->second->tf};
        line.from_dtype = plan_.bundle.find(found->second->tf)->dtype;
        line.steps = in_words(*found->second);
      }
      report.tensors.push_back(std::move(line));
      report.bytes += byte_count(info.dtype, info.shape).value();
    }
    return report;
  }

  uint64_t rest_bytes() const override {
    uint64_t bytes = 1 << 20;
    for (const auto& [name, content] : plan_.origin.side_files) bytes += content.size();
    for (const TensorInfo& info : plan_.out.tensors()) bytes += info.name.size() + 64;  // the index
    return bytes;
  }

 private:
  Status split(const ConvertOptions& options) {
    HfWriteOptions write;
    write.max_shard_bytes = options.max_shard_bytes.value_or(kDefaultShardBytes);
    if (!options.max_shard_bytes)
      for (const TensorInfo& info : plan_.out.tensors()) {
        const auto original = plan_.origin.tensors.find(info.name);
        if (original != plan_.origin.tensors.end()) write.shard_of[info.name] = original->second.shard;
      }
    TANDEM_TRY(std::vector<HfShard> shards, hf_shards(plan_.out.tensors(), write));
    for (HfShard& shard : shards) {
      TANDEM_TRY(const std::string header, safetensors_header(shard.tensors, {{"format", "pt"}}));
      DataShard data{std::move(shard.file), std::move(shard.tensors), header.size()};
      for (const TensorInfo& info : data.tensors) data.bytes += byte_count(info.dtype, info.shape).value();
      shards_.push_back(std::move(data));
    }
    return {};
  }

  // A flipped bit must not pass into a file whose own checksums would then be right.
  Status undamaged(const DataShard& shard) const {
    const std::lock_guard lock(mutex_);
    for (const TensorInfo& info : shard.tensors) {
      const auto reads = reads_.find(info.name);
      if (reads == reads_.end()) {
        TANDEM_CHECK(like_undamaged());
      } else if (checked_.insert(reads->second).second) {
        TANDEM_CHECK(source_.bundle->verify_checksum(plan_.bundle.name_there(reads->second)));
      }
    }
    return {};
  }

  Status like_undamaged() const {
    if (like_checked_ || !plan_.like || !plan_.like->bundle) return {};
    like_checked_ = true;
    return plan_.like->bundle->verify_checksums();
  }

  OpenedModel source_;
  PieceOptions pieces_;
  Plan plan_;
  std::vector<TensorPlan> made_;
  std::map<std::string, const TensorPlan*> made_from_;  ///< by Hugging Face name
  std::map<std::string, std::string> reads_;            ///< the TensorFlow tensor that each is read from
  std::vector<DataShard> shards_;
  std::vector<InputFile> inputs_;
  mutable std::mutex mutex_;
  mutable std::set<std::string> checked_;  ///< TensorFlow tensors whose checksums were right
  mutable bool like_checked_ = false;
};

}  // namespace

Result<std::unique_ptr<Conversion>> plan_back(const FileSystem& files, OpenedModel source,
                                              const ConvertOptions& options) {
  TANDEM_CHECK(refuse_odd_options(options));
  auto conversion = std::make_unique<Back>(std::move(source));
  TANDEM_CHECK(conversion->plan(files, options));
  return std::unique_ptr<Conversion>(std::move(conversion));
}

}  // namespace tandem
