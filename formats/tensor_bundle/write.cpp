// Writing a bundle: data shards, then the index.

#include <algorithm>
#include <array>

#include "base/hash.h"
#include "formats/tensor_bundle/coding.h"
#include "formats/tensor_bundle/string_tensor.h"
#include "formats/tensor_bundle/table.h"
#include "formats/tensor_bundle/tensor_bundle.h"
#include "tensorflow/core/protobuf/tensor_bundle.pb.h"

namespace tandem {
namespace {

std::string entry_text(const BundleEntry& entry) {
  tensorflow::BundleEntryProto proto;
  proto.set_dtype(static_cast<tensorflow::DataType>(entry.tensorflow_dtype));
  proto.mutable_shape();
  for (const uint64_t axis : entry.shape)
    proto.mutable_shape()->add_dim()->set_size(static_cast<int64_t>(axis));
  proto.set_shard_id(static_cast<int32_t>(entry.shard));
  proto.set_offset(static_cast<int64_t>(entry.offset));
  proto.set_size(static_cast<int64_t>(entry.bytes));
  proto.set_crc32c(entry.masked_crc);
  return proto.SerializeAsString();
}

class OneShardWriter : public TensorBundleWriter {
 public:
  OneShardWriter(const FileSystem& files, std::string prefix, std::unique_ptr<WritableFile> data)
      : files_(files), prefix_(std::move(prefix)), data_(std::move(data), 0) {}
  Status add(const std::string& key, DType dtype, const Shape& shape, const NextBytes& next) override {
    return data_.add(key, dtype, shape, next);
  }
  Status add_string(const std::string& key, std::string_view value) override {
    return data_.add_string(key, value);
  }
  Status finish() override {
    TANDEM_CHECK(data_.close());
    return write_bundle_index(files_, prefix_, 1, data_.entries());
  }

 private:
  const FileSystem& files_;
  std::string prefix_;
  BundleShardWriter data_;
};

}  // namespace

std::string bundle_shard_name(std::string_view prefix, uint32_t shard, uint32_t shards) {
  return fmt::format("{}.data-{:05}-of-{:05}", prefix, shard, shards);
}

Status BundleShardWriter::add(const std::string& key, DType dtype, const Shape& shape,
                              const NextBytes& next) {
  TANDEM_TRY(const uint64_t size, byte_count(dtype, shape));
  static constexpr std::array<std::byte, kBundleAlignment> kZeros{};
  TANDEM_CHECK(file_.append(
      std::span(kZeros).first((kBundleAlignment - file_.bytes() % kBundleAlignment) % kBundleAlignment)));
  const uint64_t begin = file_.bytes();
  // Whole rows: a part of a row is a part of a column where the source is transposed.
  const uint64_t row_bytes = shape.empty() ? 1 : shape.back() * size_of(dtype);
  TANDEM_CHECK(file_.append(size, next, row_bytes));
  appended_ += 2;
  tensors_.emplace_back(entries_.size(), appended_ - 1);
  entries_.push_back({key, row(dtype).tensorflow, shape, shard_, begin, size, 0});
  return {};
}

Result<FileSums> BundleShardWriter::close() {
  TANDEM_TRY(FileSums sums, file_.close());
  for (const auto& [entry, call] : tensors_) entries_[entry].masked_crc = mask_crc(file_.crcs()[call]);
  return sums;
}

Status BundleShardWriter::add_string(const std::string& key, std::string_view value) {
  BundleEntry entry = string_entry(key, value);
  entry.shard = shard_;
  entry.offset = file_.bytes();
  entries_.push_back(std::move(entry));
  ++appended_;
  return file_.append(as_bytes(encode_strings({value}).bytes));
}

BundleEntry string_entry(const std::string& key, std::string_view value) {
  const EncodedStrings encoded = encode_strings({value});
  return {key, tensorflow::DT_STRING, {}, 0, 0, encoded.bytes.size(), encoded.masked_crc};
}

Status write_bundle_index(const FileSystem& files, const std::string& prefix, uint32_t shards,
                          const std::vector<BundleEntry>& entries) {
  tensorflow::BundleHeaderProto header;
  header.set_num_shards(static_cast<int32_t>(shards));
  header.mutable_version()->set_producer(1);
  TableEntries table{{"", header.SerializeAsString()}};
  for (const BundleEntry& entry : entries) table.emplace_back(entry.key, entry_text(entry));
  std::sort(table.begin(), table.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t i = 1; i < table.size(); ++i)
    if (table[i].first == table[i - 1].first)
      return bug("", "key '{}' is written twice, or empty", printable(table[i].first));
  return write_text(files, prefix + ".index", write_table(table));
}

Result<std::unique_ptr<TensorBundleWriter>> TensorBundleWriter::create(const FileSystem& files,
                                                                       const std::string& prefix) {
  TANDEM_TRY(auto data, files.create(bundle_shard_name(prefix, 0, 1)));
  return std::unique_ptr<TensorBundleWriter>(
      std::make_unique<OneShardWriter>(files, prefix, std::move(data)));
}

}  // namespace tandem
