// Hugging Face to TensorFlow.

#include <algorithm>
#include <filesystem>
#include <future>
#include <set>
#include <system_error>
#include <utility>

#include "base/contained.h"
#include "convert/direction.h"
#include "convert/forward_plan.h"
#include "convert/option_rules.h"
#include "convert/source_layout.h"
#include "convert/structure_map.h"
#include "formats/hf_folder/names.h"
#include "formats/tensor_bundle/tensor_bundle.h"

namespace tandem {
namespace {

constexpr std::string_view kCheckpointName = "model";
constexpr size_t kMaxShards = 99'999;  // five digits in a data file's name

uint64_t aligned(uint64_t offset) {
  return (offset + kBundleAlignment - 1) / kBundleAlignment * kBundleAlignment;
}

/// The tensors of a part in their order, in files of at most max_shard_bytes, and of one file of the source
/// where `file` says which one each belongs to.
std::vector<DataShard> bundle_shards(const ForwardPlan& plan, const ForwardPart& part, uint64_t graph_bytes,
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

BundleEntry graph_entry(const ForwardPart& part) {
  return string_entry(std::string(kObjectGraphKey), part.graph);
}

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
void order_by_file(const OpenedModel& source, ForwardPart& part) {
  std::map<const TensorPlan*, std::string> last;
  for (const TensorPlan* tensor : part.tensors) last[tensor] = last_file_of(source, *tensor);
  std::ranges::stable_sort(part.tensors, {}, [&](const TensorPlan* tensor) { return last[tensor]; });
}

/// From here on the graph may be made while pieces and blocks are there.
constexpr uint64_t kMemoryForBoth = 128ull << 20;

class Forward : public Conversion {
 public:
  Forward(OpenedModel source, ConvertTarget target) : source_(std::move(source)), target_(target) {}

  Status plan(const FileSystem& files, const ConvertOptions& options, bool check_scales) {
    pieces_ = piece_options(options);
    threads_ = options.threads;
    memory_ = options.memory;
    TANDEM_CHECK(options_go_together(source_, options));
    TANDEM_TRY(plan_, make_forward_plan(files, source_, options, check_scales));
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
    const ForwardPart& part = part_of(index);
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

  void close_input(const std::string& path) override {
    plan_->tensors->release();
    source_.folder->close(std::filesystem::path(path).filename().string());
  }

  void begin_finish() override {
    if (threads_ < 2 || memory_ < kMemoryForBoth || target_ == ConvertTarget::checkpoint || !graphs_.empty())
      return;
    try {
      coming_graphs_ = std::async(std::launch::async, [this] { return make_graphs(); });
    } catch (const std::system_error&) {  // the system gives no more threads
    }
  }

  Status finish(const FileSystem& files, const std::string& folder,
                const std::vector<WrittenShard>& written) override {
    std::vector<SavedAsset> assets = plan_->assets;
    assets.push_back({std::string(kRecordFile), to_text(record_of(source_, plan_->rules, plan_->ignored))});
    const bool graph = target_ == ConvertTarget::saved_model;
    if (graph) TANDEM_CHECK(have_graphs());
    for (size_t i = 0; i < plan_->parts.size(); ++i) {
      ForwardPart& part = plan_->parts[i];
      TANDEM_CHECK(write_bundle_index(files, join(folder, prefix(part)), static_cast<uint32_t>(part.count),
                                      entries(part, written)));
      if (graph)
        TANDEM_CHECK(write_saved_model(files, join(folder, part.folder), graphs_[i],
                                       plan_->stages ? part.assets : assets));
    }
    if (graph && !plan_->stages) return {};
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
    for (const ForwardPart& part : plan_->parts) {
      bytes += 4 * part.graph.size();  // the index, and the graph beside it
      for (const SavedAsset& asset : part.assets) bytes += asset.content.size();
    }
    for (const SavedAsset& asset : plan_->assets) bytes += asset.content.size();
    for (const TensorInfo& info : source_.folder->tensors()) bytes += info.name.size() + 150;  // the record
    return bytes;
  }

 private:
  /// saved_model.pb of each part. Gives the parts' models away, which nobody else reads.
  Result<std::vector<std::string>> make_graphs() {
    std::vector<std::string> graphs;
    for (ForwardPart& part : plan_->parts) {
      SavedModelSpec spec = lower(std::exchange(part.model, {}));
      for (const SavedAsset& asset : plan_->stages ? part.assets : plan_->assets)
        spec.assets.push_back({asset.name, {}});
      if (!plan_->stages) spec.assets.push_back({std::string(kRecordFile), {}});
      TANDEM_TRY(graphs.emplace_back(), saved_model_bytes(std::move(spec)));
    }
    return graphs;
  }

  Status have_graphs() {
    if (!graphs_.empty()) return {};
    plan_->tensors->release();
    return contained([&]() -> Status {  // of the other thread too
      TANDEM_TRY(graphs_, coming_graphs_.valid() ? coming_graphs_.get() : make_graphs());
      return {};
    });
  }

  std::string prefix(const ForwardPart& part) const {
    return target_ == ConvertTarget::checkpoint ? std::string(kCheckpointName)
                                                : join(part.folder, "variables/variables");
  }

  const ForwardPart& part_of(size_t shard) const {
    return *std::ranges::find_if(plan_->parts,
                                 [&](const ForwardPart& part) { return shard < part.begin + part.count; });
  }

  std::vector<BundleEntry> entries(const ForwardPart& part, const std::vector<WrittenShard>& written) const {
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
    for (ForwardPart& part : plan_->parts) {
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
    ForwardPart& whole = plan_->parts.front();
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
    if (target_ == ConvertTarget::saved_model)
      TANDEM_CHECK(have_graphs());                            // what could fail at the very end fails here
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
    for (const ForwardPart& part : plan_->parts) {
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
  uint64_t memory_ = 0;
  std::vector<SourceShard> sources_;  ///< the first shards, if they are files of the source
  std::unique_ptr<ForwardPlan> plan_;
  std::vector<DataShard> shards_;
  std::vector<InputFile> inputs_;
  std::map<std::string, std::vector<size_t>> consumed_;
  std::vector<std::string> graphs_;                              ///< saved_model.pb of each part, once made
  std::future<Result<std::vector<std::string>>> coming_graphs_;  ///< last: its thread uses the others
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
