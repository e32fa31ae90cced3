#include "formats/hf_folder/hf_folder.h"

#include <algorithm>
#include <array>
#include <set>

#include "formats/hf_folder/names.h"
#include "formats/safetensors/header.h"
#include "formats/safetensors/sniff.h"

namespace tandem {
namespace {

using safetensors::shown;

using Shards = std::map<std::string, std::unique_ptr<SafetensorsFile>>;
using WeightMap = std::map<std::string, std::string>;

constexpr std::array kSideFiles{"config.json",
                                "generation_config.json",
                                "tokenizer.json",
                                "tokenizer_config.json",
                                "special_tokens_map.json",
                                "added_tokens.json",
                                "vocab.json",
                                "merges.txt",
                                "tokenizer.model",
                                "chat_template.jinja",
                                "chat_template.json"};

struct Weights {
  Shards shards;
  WeightMap weight_map;
  std::vector<std::string> remarks;
};

class Folder : public HfFolder {
 public:
  Folder(std::string path, Weights weights) : path_(std::move(path)), weights_(std::move(weights)) {
    for (const auto& [name, shard] : weights_.shards) {
      tensors_.insert(tensors_.end(), shard->tensors().begin(), shard->tensors().end());
      weights_.remarks.insert(weights_.remarks.end(), shard->warnings().begin(), shard->warnings().end());
    }
    std::sort(tensors_.begin(), tensors_.end(),
              [](const TensorInfo& a, const TensorInfo& b) { return natural_less(a.name, b.name); });
  }

  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  Status read(std::string_view tensor, uint64_t byte_offset, std::span<std::byte> out) const override {
    const SafetensorsFile* shard = shard_with(tensor);
    if (!shard) return missing("", "there is no tensor {}", shown(tensor)).at(path_);
    return shard->read(tensor, byte_offset, out);
  }
  std::unique_ptr<FileWindow> window(std::string_view tensor, uint64_t byte_offset,
                                     uint64_t size) const override {
    const SafetensorsFile* shard = shard_with(tensor);
    return shard ? shard->window(tensor, byte_offset, size) : nullptr;
  }
  std::string location(std::string_view tensor) const override {
    const SafetensorsFile* shard = shard_with(tensor);
    return shard ? shard->location(tensor) : path_;
  }

  void close(const std::string& shard) override {
    if (const auto found = weights_.shards.find(shard); found != weights_.shards.end())
      found->second->close();
  }

  const std::string& path() const override { return path_; }
  const std::string& config_text() const override { return config_text_; }
  const Json& config() const override { return config_; }
  bool has_weights() const override { return !weights_.shards.empty(); }
  const WeightMap& weight_map() const override { return weights_.weight_map; }
  std::vector<std::string> side_files() const override { return side_files_; }
  std::vector<std::string> remarks() const override { return weights_.remarks; }
  std::vector<std::string> shards() const override {
    std::vector<std::string> names;
    for (const auto& [name, shard] : weights_.shards) names.push_back(name);
    return names;
  }

  std::string config_text_;
  Json config_;
  std::vector<std::string> side_files_;

 private:
  const SafetensorsFile* shard_with(std::string_view tensor) const {
    const auto found = weights_.weight_map.find(std::string(tensor));
    return found == weights_.weight_map.end() ? nullptr : weights_.shards.at(found->second).get();
  }

  std::string path_;
  Weights weights_;
  std::vector<TensorInfo> tensors_;
};

/// What index and shards disagree in; one Error at the end.
class Differences {
 public:
  void add(const std::string& line) {
    if (++count_ <= kMost) text_ += (text_.empty() ? "" : "; ") + line;
  }
  Status status(const std::string& index_path) const {
    if (count_ == 0) return {};
    const std::string rest = count_ > kMost ? fmt::format("; and {} more", count_ - kMost) : "";
    return corrupt("X4", "index and shards differ in {} {}: {}{}", count_, count_ == 1 ? "place" : "places",
                   text_, rest)
        .at(index_path)
        .because("was the download interrupted, or the index edited?");
  }

 private:
  static constexpr size_t kMost = 1000;  ///< lines; a hostile index must not make a message of its own size
  size_t count_ = 0;
  std::string text_;
};

Result<WeightMap> weight_map_of(const Json& index) {
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (!index.is_object() || map == index.end() || !map->is_object())
    return corrupt("hf_folder_c2", "the index has no object \"weight_map\"");
  WeightMap result;
  for (const auto& [tensor, shard] : map->items()) {
    if (!shard.is_string())
      return corrupt("hf_folder_c2", "weight_map names no file for tensor {}", shown(tensor));
    const auto& name = shard.get_ref<const std::string&>();
    TANDEM_CHECK(check_shard_name(name));
    result.emplace(tensor, name);
  }
  if (result.empty()) return corrupt("hf_folder_c2", "weight_map is empty");
  return result;
}

/// Opens every shard that the index names. Absent shards and broken headers are differences; what is unsafe
/// ends it.
Result<Shards> open_shards(const FileSystem& files, const std::string& folder, const WeightMap& weight_map,
                           const SafetensorsLimits& limits, Differences& differences) {
  std::map<std::string, std::vector<std::string>> tensors_of;
  for (const auto& [tensor, shard] : weight_map) tensors_of[shard].push_back(tensor);
  std::map<std::string, std::string> paths;  // all of them are checked before the first is opened
  for (const auto& [shard, tensors] : tensors_of) {
    TANDEM_TRY(paths[shard], path_inside(files, folder, shard));
  }
  Shards shards;
  for (const auto& [shard, tensors] : tensors_of) {
    auto file = SafetensorsFile::open(files, paths[shard], limits);
    if (file.ok()) {
      shards.emplace(shard, std::move(file).value());
    } else if (file.error().kind == ErrorKind::missing) {
      differences.add(fmt::format("shard {} is missing, which holds {} tensors: {}", shown(shard),
                                  tensors.size(), some_of(tensors)));
    } else if (exit_code(file.error().kind) == exit_code(ErrorKind::corrupt)) {
      differences.add(fmt::format("shard {} cannot be read: {}", shown(shard), file.error().message()));
    } else {
      return std::move(file).error();
    }
  }
  return shards;
}

/// Compares the index with the shards that could be opened, both ways.
void compare(const WeightMap& weight_map, const Shards& shards, Differences& differences) {
  std::map<std::string_view, std::string_view> found;  // tensor to the first shard that has it
  for (const auto& [shard, file] : shards)
    for (const TensorInfo& tensor : file->tensors()) {
      const auto [first, is_new] = found.emplace(tensor.name, shard);
      if (!is_new) {
        differences.add(
            fmt::format("tensor {} is in two shards, {} and {}", shown(tensor.name), first->second, shard));
      } else if (!weight_map.contains(tensor.name)) {
        differences.add(fmt::format("tensor {} of shard {} is not in the index", shown(tensor.name), shard));
      }
    }
  for (const auto& [tensor, shard] : weight_map) {
    const auto file = shards.find(shard);
    if (file == shards.end() || file->second->find(tensor)) continue;
    const auto elsewhere = found.find(tensor);
    differences.add(
        fmt::format("tensor {} is not in shard {}, where the index has it{}", shown(tensor), shard,
                    elsewhere == found.end() ? "" : fmt::format(", but in {}", elsewhere->second)));
  }
}

/// The index's total is advisory, and often wrong: worth a remark.
void remark_total_size(const Json& index, Weights& weights) {
  const auto metadata = index.find("metadata");
  if (metadata == index.end() || !metadata->is_object()) return;
  const auto total = metadata->find("total_size");
  if (total == metadata->end()) return;
  uint64_t sum = 0;  // cannot overflow: all of it is in files
  for (const auto& [name, shard] : weights.shards)
    for (const TensorInfo& tensor : shard->tensors()) sum += byte_count(tensor.dtype, tensor.shape).value();
  if (!total->is_number() || *total != sum)
    weights.remarks.push_back(
        fmt::format("{}: total_size is {:.40}, the tensors have {} bytes", kIndexFile, total->dump(), sum));
}

Result<Weights> open_sharded(const FileSystem& files, const std::string& folder,
                             const SafetensorsLimits& limits) {
  TANDEM_TRY(const auto index_path, path_inside(files, folder, kIndexFile));
  TANDEM_TRY(const auto text, read_text(files, index_path));
  auto index = parse_json(text);
  if (!index.ok()) return std::move(index).error().at(index_path);
  auto weight_map = weight_map_of(index.value());
  if (!weight_map.ok()) return std::move(weight_map).error().at(index_path);

  Weights weights;
  weights.weight_map = std::move(weight_map).value();
  Differences differences;
  TANDEM_TRY(weights.shards, open_shards(files, folder, weights.weight_map, limits, differences));
  compare(weights.weight_map, weights.shards, differences);
  TANDEM_CHECK(differences.status(index_path));
  remark_total_size(index.value(), weights);
  return weights;
}

Result<Weights> open_single(const FileSystem& files, const std::string& path, const std::string& name,
                            const SafetensorsLimits& limits) {
  TANDEM_TRY(auto file, SafetensorsFile::open(files, path, limits));
  Weights weights;
  for (const TensorInfo& tensor : file->tensors()) weights.weight_map.emplace(tensor.name, name);
  weights.shards.emplace(name, std::move(file));
  return weights;
}

/// Why a file that is not called .safetensors is not opened.
Error wrong_name(const FileSystem& files, const std::string& path) {
  auto file = files.open(path);
  if (!file.ok()) return std::move(file).error();
  std::vector<char> head(std::min<uint64_t>(file.value()->size(), 512));
  if (Status read = file.value()->read(0, std::as_writable_bytes(std::span(head))); !read.ok())
    return std::move(read).error();
  if (safetensors::looks_like_safetensors(head, file.value()->size()))
    return corrupt("P16", "the content is safetensors, but the name does not end in .safetensors")
        .at(path)
        .because("rename the file if you trust it");
  const safetensors::Guess guess = safetensors::sniff(head);
  return unsupported("P16", "this is {}, expected a folder or a .safetensors file",
                     guess.what.empty() ? "an unknown kind of file" : guess.what)
      .at(path)
      .because(guess.hint);
}

/// Why a folder has no weights that we can read.
Error no_weights(const FileSystem& files, const std::string& folder, const std::vector<std::string>& others) {
  if (others.empty()) return missing("", "there is neither {} nor {}", kSingleFile, kIndexFile).at(folder);
  const std::string list = fmt::format("{}", fmt::join(others, ", "));
  for (const std::string& name : others)
    if (!is_safetensors_name(name)) {
      if (Error error = wrong_name(files, join(folder, name)); error.kind == ErrorKind::corrupt) return error;
    }
  return missing("", "there is neither {} nor {}, only {}", kSingleFile, kIndexFile, list)
      .at(folder)
      .because("shards need their index; other formats must be converted to safetensors first");
}

Result<Weights> open_weights(const FileSystem& files, const std::string& folder,
                             const std::vector<std::string>& names, bool allow_none,
                             const SafetensorsLimits& limits) {
  const auto has = [&](const char* name) { return std::binary_search(names.begin(), names.end(), name); };
  Weights weights;
  if (has(kIndexFile)) {
    TANDEM_TRY(weights, open_sharded(files, folder, limits));
  } else if (has(kSingleFile)) {
    TANDEM_TRY(const auto path, path_inside(files, folder, kSingleFile));
    TANDEM_TRY(weights, open_single(files, path, kSingleFile, limits));
  }
  std::vector<std::string> unused;
  for (const std::string& name : names)
    if (is_weight_name(name) && !weights.shards.contains(name)) unused.push_back(name);
  if (weights.shards.empty() && !(allow_none && unused.empty())) return no_weights(files, folder, unused);
  for (const std::string& name : unused)
    weights.remarks.push_back(
        fmt::format("{} is ignored: {}", shown(name),
                    has(kIndexFile) ? "the index does not name it" : "model.safetensors is used"));
  return weights;
}

}  // namespace

Result<std::unique_ptr<HfFolder>> HfFolder::open(const FileSystem& files, const std::string& path,
                                                 const Options& options) {
  TANDEM_TRY(const auto kind, files.kind(path));
  if (kind == PathKind::absent) return missing("", "there is no such file or folder").at(path);
  if (kind != PathKind::directory) {
    const std::string name = path.substr(path.rfind('/') + 1);
    if (!is_safetensors_name(name)) return wrong_name(files, path);
    TANDEM_TRY(auto weights, open_single(files, path, name, options.limits));
    return std::unique_ptr<HfFolder>(std::make_unique<Folder>(path, std::move(weights)));
  }

  TANDEM_TRY(const auto names, files.list(path));
  const bool has_config = std::binary_search(names.begin(), names.end(), "config.json");
  TANDEM_TRY(auto weights,
             open_weights(files, path, names, options.allow_no_weights && has_config, options.limits));
  auto folder = std::make_unique<Folder>(path, std::move(weights));
  for (const char* name : kSideFiles)
    if (std::binary_search(names.begin(), names.end(), name)) folder->side_files_.push_back(name);
  if (has_config) {
    TANDEM_TRY(const auto config_path, path_inside(files, path, "config.json"));
    TANDEM_TRY(folder->config_text_, read_text(files, config_path));
    auto config = parse_json(folder->config_text_);
    if (!config.ok()) return std::move(config).error().at(config_path);
    folder->config_ = std::move(config).value();
  }
  return std::unique_ptr<HfFolder>(std::move(folder));
}

}  // namespace tandem
