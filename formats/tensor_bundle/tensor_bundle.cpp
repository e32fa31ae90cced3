#include "formats/tensor_bundle/tensor_bundle.h"

#include <algorithm>
#include <map>

#include "base/hash.h"
#include "formats/tensor_bundle/bundle_prefix.h"
#include "formats/tensor_bundle/coding.h"
#include "formats/tensor_bundle/index.h"
#include "formats/tensor_bundle/object_graph.h"
#include "formats/tensor_bundle/string_tensor.h"
#include "formats/tensor_bundle/table.h"

namespace tandem {
namespace {

constexpr uint64_t kMaxIndexBytes = 256ull << 20;
constexpr uint64_t kMaxStringBytes = 64ull << 20;
constexpr uint64_t kReadBytes = 4ull << 20;  // at a time, when checksums are verified
constexpr int kTensorflowString = tensorflow::DT_STRING;

/// The name of an entry that no edge leads to.
std::string name_of_key(std::string_view key) {
  if (!key.ends_with(kValueSuffix)) return std::string(key);
  key.remove_suffix(kValueSuffix.size());
  std::string name;
  for (size_t i = 0; i < key.size(); ++i) {
    name.push_back(key[i]);
    if (key.substr(i, 2) == "..") ++i;
  }
  return name;
}

/// One tensor under its chosen name.
struct NamedTensor {
  const StoredTensor* stored;
  std::string key;
  std::vector<std::string> aliases;
};

/// Bytes [begin, begin + size) of a tensor lie `from` bytes into a piece.
struct Run {
  uint64_t begin, from, size;
};

/// Calls `visit` for each stretch of a piece that is contiguous in the tensor, in order.
template <class Visit>
Status for_each_run(const Box& box, const Shape& shape, uint64_t element_size, Visit visit) {
  size_t axes = shape.size();  // the axes whose rows are separate runs
  uint64_t run = element_size;
  while (axes > 0) {
    --axes;
    run *= box.size[axes];
    if (box.size[axes] != shape[axes]) break;
  }
  if (run == 0) return {};
  Shape strides(shape.size(), element_size);  // in bytes, of the whole tensor
  for (size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
  uint64_t begin = 0, count = 1;
  for (size_t axis = 0; axis < shape.size(); ++axis) begin += box.begin[axis] * strides[axis];
  for (size_t axis = 0; axis < axes; ++axis) count *= box.size[axis];
  Shape at(axes, 0);
  for (uint64_t i = 0; i < count; ++i) {
    TANDEM_CHECK(visit(Run{begin, i * run, run}));
    for (size_t axis = axes; axis-- > 0;) {
      begin += strides[axis];
      if (++at[axis] < box.size[axis]) break;
      begin -= at[axis] * strides[axis];
      at[axis] = 0;
    }
  }
  return {};
}

/// "[0:500,0:64]"
std::string in_words(const Box& box) {
  std::string text;
  for (size_t axis = 0; axis < box.begin.size(); ++axis)
    text += fmt::format("{}{}:{}", axis ? "," : "[", box.begin[axis], box.begin[axis] + box.size[axis]);
  return text + "]";
}

class OpenBundle : public TensorBundle {
 public:
  static Result<std::unique_ptr<TensorBundle>> open(const FileSystem& files, const std::string& path) {
    TANDEM_TRY(const std::string prefix, bundle_prefix(files, path));
    auto bundle = std::make_unique<OpenBundle>(prefix);
    TANDEM_TRY(const std::string index, read_text(files, bundle->index_path(), kMaxIndexBytes));
    TANDEM_TRY(bundle->index_, parse_index(index, bundle->index_path()));
    TANDEM_CHECK(bundle->open_shards(files));
    TANDEM_CHECK(bundle->name_tensors());
    return std::unique_ptr<TensorBundle>(std::move(bundle));
  }

  explicit OpenBundle(std::string prefix) : prefix_(std::move(prefix)) {}

  const std::vector<TensorInfo>& tensors() const override { return infos_; }

  Status read(std::string_view tensor, uint64_t byte_offset, std::span<std::byte> out) const override {
    TANDEM_TRY(const NamedTensor* named, find_named(tensor));
    const StoredTensor& stored = *named->stored;
    const uint64_t element_size = size_of(*stored.dtype);
    uint64_t bytes = 0;
    for (const StoredPiece& piece : stored.pieces) bytes += piece.size;
    if (byte_offset > bytes || out.size() > bytes - byte_offset)
      return bug("", "bytes {} to {} of '{}', which has {}", byte_offset, byte_offset + out.size(), tensor,
                 bytes);
    const uint64_t end = byte_offset + out.size();
    for (const StoredPiece& piece : stored.pieces) {
      TANDEM_CHECK(for_each_run(piece.box, stored.shape, element_size, [&](const Run& run) -> Status {
        const uint64_t first = std::max(run.begin, byte_offset), last = std::min(run.begin + run.size, end);
        if (first >= last) return {};
        return shards_.at(piece.shard)
            ->read(piece.offset + run.from + (first - run.begin),
                   out.subspan(first - byte_offset, last - first));
      }));
    }
    return {};
  }

  std::unique_ptr<FileWindow> window(std::string_view tensor, uint64_t byte_offset,
                                     uint64_t size) const override {
    const auto named = named_.find(tensor);
    if (named == named_.end() || named->second.stored->pieces.size() != 1) return nullptr;
    const StoredPiece& piece = named->second.stored->pieces.front();
    if (byte_offset > piece.size || size > piece.size - byte_offset) return nullptr;
    return shards_.at(piece.shard)->window(piece.offset + byte_offset, size);
  }

  std::string location(std::string_view tensor) const override {
    const auto named = named_.find(tensor);
    if (named == named_.end()) return index_path();
    const StoredPiece& piece = named->second.stored->pieces.front();
    return fmt::format("{} bytes {} to {}", shard_path(piece.shard), piece.offset, piece.offset + piece.size);
  }

  Status verify_checksums() const override {
    for (const auto& [key, tensor] : index_.tensors)
      if (tensor.dtype || tensor.tensorflow_dtype == kTensorflowString) TANDEM_CHECK(verify(key, tensor));
    return {};
  }

  Status verify_checksum(std::string_view tensor) const override {
    TANDEM_TRY(const NamedTensor* named, find_named(tensor));
    return verify(named->key, *named->stored);
  }

  std::optional<uint32_t> stored_checksum(std::string_view tensor) const override {
    const auto named = named_.find(tensor);
    if (named == named_.end() || named->second.stored->pieces.size() != 1) return {};
    return named->second.stored->pieces.front().masked_crc;
  }

  Result<std::string> read_string(std::string_view key) const override {
    const auto found = index_.tensors.find(key);
    if (found == index_.tensors.end()) return missing("", "no entry '{}'", printable(key)).at(index_path());
    const StoredTensor& tensor = found->second;
    if (tensor.tensorflow_dtype != kTensorflowString || !tensor.shape.empty())
      return corrupt("T5", "'{}' is no scalar string", printable(key)).at(index_path());
    auto strings = read_strings(tensor, tensor.pieces.front());
    if (!strings.ok())
      return std::move(strings).error().at(shard_path(tensor.pieces.front().shard),
                                           tensor.pieces.front().offset);
    return std::move(strings).value().front();
  }

  bool has_object_graph() const override { return index_.tensors.contains(kObjectGraphKey); }

  std::vector<std::string> aliases(std::string_view tensor) const override {
    const auto named = named_.find(tensor);
    return named == named_.end() ? std::vector<std::string>{} : named->second.aliases;
  }

  const std::vector<std::string>& remarks() const override { return remarks_; }

  std::vector<BundleExtent> extents() const override {
    std::vector<BundleExtent> found;
    const auto add = [&](const std::string& name, const StoredTensor& tensor) {
      const bool whole = tensor.pieces.size() == 1;
      for (const StoredPiece& piece : tensor.pieces)
        found.push_back(
            {whole ? name : name + in_words(piece.box), shard_path(piece.shard), piece.offset, piece.size});
    };
    for (const auto& [name, named] : named_) add(name, *named.stored);
    for (const auto& [key, tensor] : index_.tensors)
      if (!tensor.dtype) add(printable(key), tensor);
    return found;
  }

 private:
  std::string index_path() const { return prefix_ + ".index"; }
  std::string shard_path(uint32_t shard) const { return bundle_shard_name(prefix_, shard, index_.shards); }

  /// Opens the shards that hold something, and checks that every piece lies inside its own.
  Status open_shards(const FileSystem& files) {
    for (const auto& [key, tensor] : index_.tensors) {
      for (const StoredPiece& piece : tensor.pieces) {
        auto& shard = shards_[piece.shard];
        if (!shard) {
          TANDEM_TRY(shard, files.open(shard_path(piece.shard)));
        }
        if (piece.offset > shard->size() || piece.size > shard->size() - piece.offset)
          return corrupt("T5", "'{}' takes bytes {} to {}, the file has {}", printable(key), piece.offset,
                         piece.offset + piece.size, shard->size())
              .at(shard->path())
              .because("cut short while it was copied?");
      }
    }
    return {};
  }

  Status name_tensors() {
    std::map<std::string, std::vector<std::string>> names;
    if (has_object_graph()) {
      TANDEM_TRY(const std::string graph, read_string(kObjectGraphKey));
      auto found = names_by_key(graph);
      if (!found.ok()) return std::move(found).error().at(index_path());
      names = std::move(found).value();
    }
    for (const auto& [key, list] : names)
      if (!index_.tensors.contains(key))
        return corrupt("T4", "variable '{}' of the object graph has no entry '{}'", printable(list.front()),
                       printable(key))
            .at(index_path());
    for (const auto& [key, tensor] : index_.tensors) {
      if (!tensor.dtype) {
        if (key != kObjectGraphKey)
          remarks_.push_back(tensor.tensorflow_dtype == kTensorflowString
                                 ? printable(key) + ": a string"
                                 : fmt::format("{}: TensorFlow dtype {} has no counterpart", printable(key),
                                               tensor.tensorflow_dtype));
        continue;
      }
      const auto known = names.find(key);
      auto aliases = known != names.end() ? known->second : std::vector{name_of_key(key)};
      std::string name = aliases.front();
      infos_.push_back({name, *tensor.dtype, tensor.shape});
      if (!named_.emplace(std::move(name), NamedTensor{&tensor, key, std::move(aliases)}).second)
        return corrupt("T4", "two tensors are named '{}'", printable(infos_.back().name)).at(index_path());
    }
    std::sort(infos_.begin(), infos_.end(),
              [](const TensorInfo& a, const TensorInfo& b) { return natural_less(a.name, b.name); });
    return {};
  }

  Result<const NamedTensor*> find_named(std::string_view tensor) const {
    const auto found = named_.find(tensor);
    if (found == named_.end()) return missing("", "no tensor '{}'", tensor).at(index_path());
    return &found->second;
  }

  Result<std::vector<std::string>> read_strings(const StoredTensor& tensor, const StoredPiece& piece) const {
    if (piece.size > kMaxStringBytes)
      return corrupt("T5", "a string tensor of {} bytes, the limit is {}", piece.size, kMaxStringBytes);
    std::string bytes(piece.size, '\0');
    TANDEM_CHECK(shards_.at(piece.shard)->read(piece.offset, std::as_writable_bytes(std::span(bytes))));
    TANDEM_TRY(const uint64_t count, element_count(tensor.shape));
    return decode_strings(bytes, count, piece.masked_crc);
  }

  Status verify(const std::string& key, const StoredTensor& tensor) const {
    for (const StoredPiece& piece : tensor.pieces)
      if (auto same = verify(tensor, piece); !same.ok())
        return std::move(same).error().at(fmt::format("{}: {}", shard_path(piece.shard), printable(key)));
    return {};
  }

  Status verify(const StoredTensor& tensor, const StoredPiece& piece) const {
    if (!tensor.dtype) {
      auto strings = read_strings(tensor, piece);
      if (!strings.ok()) return std::move(strings).error();
      return {};
    }
    std::vector<std::byte> buffer(std::min(piece.size, kReadBytes));
    uint32_t crc = 0;
    for (uint64_t done = 0; done < piece.size;) {
      const auto part = std::span(buffer).first(std::min(piece.size - done, kReadBytes));
      TANDEM_CHECK(shards_.at(piece.shard)->read(piece.offset + done, part));
      crc = crc32c(crc, part);
      done += part.size();
    }
    if (mask_crc(crc) != piece.masked_crc)
      return corrupt("T5", "the checksum of bytes {} to {} does not match", piece.offset,
                     piece.offset + piece.size)
          .because("the file was damaged after it was written");
    return {};
  }

  std::string prefix_;
  BundleIndex index_;
  std::map<uint32_t, std::unique_ptr<ReadableFile>> shards_;  ///< those that hold something
  std::vector<TensorInfo> infos_;
  std::map<std::string, NamedTensor, std::less<>> named_;
  std::vector<std::string> remarks_;
};

}  // namespace

Result<std::unique_ptr<TensorBundle>> TensorBundle::open(const FileSystem& files, const std::string& prefix) {
  return OpenBundle::open(files, prefix);
}

}  // namespace tandem
