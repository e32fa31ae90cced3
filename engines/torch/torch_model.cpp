#include "engines/torch/torch_model.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <sys/mman.h>
#include <torch/headeronly/version.h>

#include <cstring>

#include "arch/architecture.h"
#include "contract/cached.h"
#include "contract/check.h"
#include "contract/text.h"
#include "engines/seen_rows.h"
#include "formats/hf_folder/hf_folder.h"
#include "formats/saved_model/stage_bundles.h"
#include "lower/torch/lower_torch.h"
#include "rules/transform.h"

namespace tandem {
namespace {

/// A contract, and its weights as they lie on the TensorFlow side. Later members hang on earlier ones.
struct LoadedCheckpoint {
  std::unique_ptr<TensorSource> files;  ///< what is on disk
  RuleTable rules;
  std::unique_ptr<TensorSource>
      weights;  ///< seen through the rules; null where the files are TensorFlow's own
  Contract contract;

  const TensorSource& tensors() const { return weights ? *weights : *files; }
};

Result<std::unique_ptr<LoadedCheckpoint>> load_hf_folder(const std::string& path, const ArchOptions& arch) {
  TANDEM_TRY(std::unique_ptr<HfFolder> folder, HfFolder::open(real_files(), path, {}));
  TANDEM_TRY(Model model, make_model(folder->config(), arch));
  auto loaded = std::make_unique<LoadedCheckpoint>();
  loaded->rules = std::move(model.rules);
  TransformOptions options;
  options.fp8_dtype = DType::f32;  // exact: code times scale
  TANDEM_TRY(loaded->weights, ToTensorFlow::make(loaded->rules, *folder, options));
  const auto storage = [&](const std::string& name) {
    const TensorInfo* info = loaded->weights->find(name);
    return info == nullptr ? DType::f32 : info->dtype;
  };
  TANDEM_TRY(loaded->contract, model.contract(loaded->rules, DType::f32, storage));
  loaded->files = std::move(folder);
  return loaded;
}

/// Rules and contract of a converted model, from the folder that holds them.
Result<std::unique_ptr<LoadedCheckpoint>> load_converted(const std::string& folder) {
  auto loaded = std::make_unique<LoadedCheckpoint>();
  TANDEM_TRY(const std::string rules_text, read_text(real_files(), join(folder, "tandem_rules.json")));
  TANDEM_TRY(const Json record, parse_json(rules_text));
  if (!record.is_object() || !record.contains("rules"))
    return corrupt("torch_c6", "no rules in it").at(join(folder, "tandem_rules.json"));
  TANDEM_TRY(loaded->rules, rules_from_json(record["rules"]));
  TANDEM_TRY(const std::string contract_text, read_text(real_files(), join(folder, "tandem_contract.txt")));
  TANDEM_TRY(loaded->contract, parse_contract(contract_text));
  return loaded;
}

Result<std::unique_ptr<LoadedCheckpoint>> load_saved_model(const std::string& path) {
  TANDEM_TRY(auto loaded, load_converted(join(path, "assets")));
  TANDEM_TRY(loaded->files, TensorBundle::open(real_files(), join(path, "variables/variables")));
  return loaded;
}

/// All stages as the whole model.
Result<std::unique_ptr<LoadedCheckpoint>> load_stages(const std::string& path) {
  TANDEM_TRY(const StageManifest manifest, read_stages(real_files(), path));
  TANDEM_TRY(auto loaded, load_converted(path));
  TANDEM_TRY(loaded->files, open_stage_bundles(real_files(), path, manifest));
  return loaded;
}

Result<std::unique_ptr<LoadedCheckpoint>> load_files(const std::string& path, const ArchOptions& arch) {
  TANDEM_TRY(const PathKind stages, real_files().kind(join(path, kStagesFile)));
  if (stages == PathKind::file) return load_stages(path);
  TANDEM_TRY(const PathKind graph, real_files().kind(join(path, "saved_model.pb")));
  if (graph == PathKind::file) return load_saved_model(path);
  TANDEM_TRY(const PathKind config, real_files().kind(join(path, "config.json")));
  if (config == PathKind::file) return load_hf_folder(path, arch);
  return invalid("torch_c2", "{} has neither saved_model.pb nor config.json", path);
}

Result<std::unique_ptr<LoadedCheckpoint>> load_checkpoint(const std::string& path, const ArchOptions& arch) {
  TANDEM_TRY(auto loaded, load_files(path, arch));
  TANDEM_CHECK(check(loaded->contract));
  return loaded;
}

Result<at::Tensor> to_torch(const HostTensor& tensor) {
  TANDEM_TRY(const at::ScalarType type, torch_type(tensor.dtype));
  const std::vector<int64_t> sizes(tensor.shape.begin(), tensor.shape.end());
  at::Tensor result = at::empty(sizes, type);
  if (!tensor.data.empty()) memcpy(result.mutable_data_ptr(), tensor.data.data(), tensor.data.size());
  return result;
}

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

Result<at::Tensor> read_whole(const TensorSource& source, const TensorInfo& info, at::ScalarType type) {
  TANDEM_TRY(const at::ScalarType stored_type, torch_type(info.dtype));
  const std::vector<int64_t> sizes(info.shape.begin(), info.shape.end());
  const at::Tensor stored = at::empty(sizes, stored_type);
  if (stored.numel() != 0) {
    TANDEM_CHECK(source.read(info.name, 0, bytes_of(stored)));
  }
  return stored.to(type);
}

/// A tensor whose pages take no memory, and are not promised any, before they are written.
Result<at::Tensor> unwritten(const std::vector<int64_t>& sizes, at::ScalarType type, uint64_t bytes) {
  void* const data =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED)
    return make_error(ErrorKind::memory, "torch_c7", "no address space for {} bytes", bytes);
  return at::from_blob(
      data, sizes, [bytes](void* mapped) { munmap(mapped, bytes); }, type);
}

/// Some rows of the first axis, the others left unwritten.
Result<at::Tensor> read_rows(const TensorSource& source, const TensorInfo& info, at::ScalarType type,
                             const std::vector<int64_t>& rows) {
  const std::vector<int64_t> sizes(info.shape.begin(), info.shape.end());
  const Shape row_shape(info.shape.begin() + 1, info.shape.end());
  TANDEM_TRY(const DType computed, dtype_of_torch(type));
  TANDEM_TRY(const uint64_t bytes, byte_count(computed, info.shape));
  TANDEM_TRY(const uint64_t row_bytes, byte_count(info.dtype, row_shape));
  if (bytes == 0) return read_whole(source, info, type);
  TANDEM_TRY(const at::Tensor whole, unwritten(sizes, type, bytes));
  TANDEM_TRY(const at::ScalarType stored_type, torch_type(info.dtype));
  const at::Tensor stored = at::empty(at::IntArrayRef(sizes).slice(1), stored_type);
  for (const int64_t row : rows) {
    if (row < 0 || row >= sizes[0]) continue;
    TANDEM_CHECK(source.read(info.name, static_cast<uint64_t>(row) * row_bytes, bytes_of(stored)));
    whole.select(0, row).copy_(stored);
  }
  return whole;
}

Result<HostTensor> from_torch(const at::Tensor& tensor) {
  TANDEM_TRY(const DType dtype, dtype_of_torch(tensor.scalar_type()));
  const at::Tensor plain = tensor.contiguous();
  HostTensor result{
      dtype, {plain.sizes().begin(), plain.sizes().end()}, std::vector<std::byte>(plain.nbytes())};
  if (!result.data.empty()) memcpy(result.data.data(), plain.const_data_ptr(), result.data.size());
  return result;
}

class TorchModel : public ServedModel {
 public:
  TorchModel(std::unique_ptr<LoadedCheckpoint> checkpoint, bool float64, bool stream)
      : checkpoint_(std::move(checkpoint)), float64_(float64), stream_(stream) {
    for (const TensorPlan& plan : expand(checkpoint_->rules)) tensor_names_[plan.contract_name] = plan.tf;
    make_steps();
  }

  /// Every weight of the contract has its tensor, of the right shape. All problems in one error.
  Status check_weights() const { return check_weights(checkpoint_->contract); }
  Status check_weights(const Contract& contract) const {
    std::vector<std::string> problems;
    for (const WeightEntry& weight : contract.weights) {
      const auto name = tensor_names_.find(weight.name);
      const TensorInfo* info =
          name == tensor_names_.end() ? nullptr : checkpoint_->tensors().find(name->second);
      if (info == nullptr)
        problems.push_back(fmt::format("weight {} is not there", weight.name));
      else if (info->shape != weight.shape)
        problems.push_back(fmt::format("weight {} is {}, the contract has {}", weight.name,
                                       to_string(info->shape), to_string(weight.shape)));
    }
    if (!problems.empty()) return invalid("torch_c3", "{}", fmt::join(problems, "; "));
    return {};
  }

  EngineInfo info() const override {
    return {{"engine", "torch"}, {"version", TORCH_VERSION}, {"dtype", float64_ ? "float64" : "float32"}};
  }

  Result<HostTensors> run(const std::string& entry, const HostTensors& inputs,
                          const std::vector<std::string>& outputs) override {
    TANDEM_TRY(const Block* block, entry_named(entry == "taps" ? "logits" : entry));
    TANDEM_TRY(const TorchTensors values, all_to_torch(inputs));
    TANDEM_TRY(const TorchTensors results, run_torch(contract(), *block, values, lookup(),
                                                     {.float64 = float64_, .with_taps = entry == "taps"}));
    HostTensors tensors;
    for (const auto& [name, tensor] : results) {
      if (!is_wanted(outputs, name)) continue;
      TANDEM_TRY(HostTensor host, from_torch(tensor));
      tensors.emplace(name, std::move(host));
    }
    for (const std::string& output : outputs)
      if (!tensors.contains(output))
        return invalid("torch_c5", "entry '{}' has no output '{}'", entry, output);
    return tensors;
  }

  Result<HostTensors> last_logits(const HostTensors& inputs) override {
    if (!steps_ || !positions_follow_mask(inputs)) return ServedModel::last_logits(inputs);
    const bool next = seen_.are_continued_by(inputs);
    seen_.forget();
    const HostTensor& ids = inputs.at("input_ids");
    TANDEM_TRY(TorchTensors values, all_to_torch({{"input_ids", next ? last_column(ids) : ids},
                                                  {"attention_mask", inputs.at("attention_mask")}}));
    for (const auto& [name, cache] : kept_)
      if (next && is_cache(name)) values["past" + name.substr(name.find('_'))] = cache;
    const Block& entry = *find_entry(*steps_, next ? "decode" : "prefill");
    TANDEM_TRY(kept_, run_torch(*steps_, entry, values, lookup(), {.float64 = float64_, .with_taps = false}));
    HostTensors results;
    TANDEM_TRY(results["logits"], from_torch(kept_.at("logits")));
    seen_.remember(inputs);
    return results;
  }

  Result<HostTensors> values(const std::string& entry, Scope scope, const HostTensors& given,
                             const std::vector<std::string>& outputs) override {
    TANDEM_TRY(const Block* block, entry_named(entry));
    TANDEM_TRY(const TorchTensors tensors, all_to_torch(given));
    TANDEM_TRY(const TorchTensors results,
               run_torch_part(contract(), *block, {scope == Scope::block, outputs}, tensors, lookup(),
                              {.float64 = float64_, .with_taps = false}));
    HostTensors values;
    for (const auto& [name, tensor] : results) {
      TANDEM_TRY(HostTensor host, from_torch(tensor));
      values.emplace(name, std::move(host));
    }
    return values;
  }

  Status edit(const std::string& text, const HostTensors& weights) override {
    std::optional<Contract> edited;
    if (!text.empty()) {
      TANDEM_TRY(edited, parse_contract(text));
      TANDEM_CHECK(check(*edited));
      TANDEM_CHECK(check_weights(*edited));
    }
    TANDEM_TRY(TorchTensors replaced, all_to_torch(weights));
    edited_ = std::move(edited);
    replaced_ = std::move(replaced);
    make_steps();
    return {};
  }

 private:
  const Contract& contract() const { return edited_ ? *edited_ : checkpoint_->contract; }

  /// The contract with the entries that keep a cache, where it can be cut into steps.
  void make_steps() {
    seen_.forget();
    kept_.clear();
    steps_.reset();
    if (auto cached = with_cached_entries(contract()); cached.ok()) steps_ = std::move(cached).value();
  }

  Result<const Block*> entry_named(const std::string& entry) const {
    const Block* block = find_entry(contract(), entry);
    if (block == nullptr) return invalid("torch_c4", "the contract has no entry '{}'", entry);
    return block;
  }

  static Result<TorchTensors> all_to_torch(const HostTensors& tensors) {
    TorchTensors values;
    for (const auto& [name, tensor] : tensors) {
      TANDEM_TRY(at::Tensor value, to_torch(tensor));
      values.emplace(name, std::move(value));
    }
    return values;
  }

  TorchWeights lookup() {
    return [this](const std::string& name, at::ScalarType type, const TorchRows& rows) {
      return weight(name, type, rows);
    };
  }

  /// A weight in the type that it is computed with; read once, or, when streaming, as far as it is needed and
  /// each time.
  Result<at::Tensor> weight(const std::string& name, at::ScalarType type, const TorchRows& rows) {
    if (const auto edited = replaced_.find(name); edited != replaced_.end()) return edited->second.to(type);
    const auto key = std::pair(name, type);
    if (const auto found = weights_.find(key); found != weights_.end()) return found->second;
    const TensorInfo& info =
        *checkpoint_->tensors().find(tensor_names_.at(name));  // check_weights has seen it
    if (stream_ && rows) return read_rows(checkpoint_->tensors(), info, type, *rows);
    TANDEM_TRY(const at::Tensor whole, read_whole(checkpoint_->tensors(), info, type));
    if (stream_) return whole;
    return weights_.emplace(key, whole).first->second;
  }

  std::unique_ptr<LoadedCheckpoint> checkpoint_;
  bool float64_;
  bool stream_;                                      ///< no weight is kept
  std::map<std::string, std::string> tensor_names_;  ///< contract name to TensorFlow name
  std::map<std::pair<std::string, at::ScalarType>, at::Tensor> weights_;
  std::optional<Contract> edited_;  ///< see edit
  TorchTensors replaced_;           ///< weights in place of the model's
  std::optional<Contract> steps_;   ///< see make_steps
  SeenRows seen_;                   ///< by last_logits
  TorchTensors kept_;               ///< what the last step gave: the caches
};

}  // namespace

Result<std::unique_ptr<ServedModel>> load_torch_model(const Words& words) {
  const std::string dtype = word(words, "dtype");
  if (dtype != "float32" && dtype != "float64")
    return usage("torch_c1", "dtype '{}' is neither float32 nor float64", dtype);
  if (const int threads = atoi(word(words, "threads").c_str()); threads > 0) at::set_num_threads(threads);
  const std::vector<std::string> accepted = split_names(word(words, "accepted_keys"));
  TANDEM_TRY(auto checkpoint, load_checkpoint(word(words, "path"), {{accepted.begin(), accepted.end()}}));
  const bool stream = word(words, "stream") == "1";
  if (stream) give_freed_memory_back();
  auto model = std::make_unique<TorchModel>(std::move(checkpoint), dtype == "float64", stream);
  TANDEM_CHECK(model->check_weights());
  return std::unique_ptr<ServedModel>(std::move(model));
}

}  // namespace tandem
