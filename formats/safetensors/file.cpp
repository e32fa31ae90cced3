// A safetensors file as a TensorSource.

#include <algorithm>
#include <cassert>
#include <cstring>

#include "formats/safetensors/header.h"

namespace tandem {
namespace {

using safetensors::Entry;
using safetensors::shown;

class MemoryFile : public ReadableFile {
 public:
  MemoryFile(std::vector<std::byte> bytes, std::string label)
      : bytes_(std::move(bytes)), label_(std::move(label)) {}
  const std::string& path() const override { return label_; }
  uint64_t size() const override { return bytes_.size(); }
  Status read(uint64_t offset, std::span<std::byte> out) const override {
    if (offset > bytes_.size() || out.size() > bytes_.size() - offset)
      return corrupt("", "{} bytes wanted at {}, there are {}", out.size(), offset, bytes_.size()).at(label_);
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return {};
  }

 private:
  std::vector<std::byte> bytes_;
  std::string label_;
};

class File : public SafetensorsFile {
 public:
  File(std::unique_ptr<ReadableFile> file, safetensors::Header header)
      : path_(file->path()),
        file_(std::move(file)),
        metadata_(std::move(header.metadata)),
        data_start_(header.data_start) {
    std::vector<Entry>& entries = header.entries;
    std::sort(entries.begin(), entries.end(),
              [](const Entry& a, const Entry& b) { return natural_less(a.info.name, b.info.name); });
    infos_.reserve(entries.size());
    ranges_.reserve(entries.size());
    for (Entry& entry : entries) {
      infos_.push_back(std::move(entry.info));
      ranges_.push_back({entry.begin, entry.end});
    }
    if (file_->has_other_names())
      warnings_.push_back(fmt::format(
          "{}: the file has other names too (hard links), under which it can be changed (X2)", path_));
    if (data_start_ % 8 != 0)
      warnings_.push_back(
          fmt::format("{}: data starts at byte {}, not a multiple of 8 (S18)", path_, data_start_));
  }

  const std::vector<TensorInfo>& tensors() const override { return infos_; }
  const std::map<std::string, std::string>& metadata() const override { return metadata_; }
  const std::vector<std::string>& warnings() const override { return warnings_; }

  Status read(std::string_view tensor, uint64_t byte_offset, std::span<std::byte> out) const override {
    const Range* range = range_of(tensor);
    if (!range) return missing("", "there is no tensor {}", shown(tensor)).at(path_);
    const uint64_t bytes = range->end - range->begin;
    if (byte_offset > bytes || out.size() > bytes - byte_offset)
      return make_error(ErrorKind::bug, "", "read of {} bytes at {} of tensor {}, which has {}", out.size(),
                        byte_offset, shown(tensor), bytes)
          .at(path_);
    if (out.empty()) return {};
    if (!file_) return missing("", "the file was closed").at(path_);
    return file_->read(data_start_ + range->begin + byte_offset, out);
  }

  std::unique_ptr<FileWindow> window(std::string_view tensor, uint64_t byte_offset,
                                     uint64_t size) const override {
    const Range* range = range_of(tensor);
    if (!file_ || !range || byte_offset > range->end - range->begin ||
        size > range->end - range->begin - byte_offset)
      return nullptr;
    return file_->window(data_start_ + range->begin + byte_offset, size);
  }

  std::string location(std::string_view tensor) const override {
    const Range* range = range_of(tensor);
    if (!range) return path_;
    return fmt::format("{}, bytes {} to {}", path_, data_start_ + range->begin, data_start_ + range->end);
  }

  uint64_t data_offset(std::string_view tensor) const override {
    const Range* range = range_of(tensor);
    assert(range);
    return data_start_ + range->begin;
  }

  void close() override { file_.reset(); }

 private:
  struct Range {
    uint64_t begin, end;
  };
  const Range* range_of(std::string_view tensor) const {
    const auto found = std::lower_bound(
        infos_.begin(), infos_.end(), tensor,
        [](const TensorInfo& info, std::string_view name) { return natural_less(info.name, name); });
    if (found == infos_.end() || found->name != tensor) return nullptr;
    return &ranges_[found - infos_.begin()];
  }

  std::string path_;
  std::unique_ptr<ReadableFile> file_;  ///< null once closed
  std::map<std::string, std::string> metadata_;
  uint64_t data_start_;
  std::vector<TensorInfo> infos_;  ///< in canonical order
  std::vector<Range> ranges_;      ///< of infos_, in the data
  std::vector<std::string> warnings_;
};

Result<std::unique_ptr<SafetensorsFile>> from(std::unique_ptr<ReadableFile> file,
                                              const SafetensorsLimits& limits) {
  TANDEM_TRY(auto header, safetensors::read_header(*file, limits));
  return std::unique_ptr<SafetensorsFile>(std::make_unique<File>(std::move(file), std::move(header)));
}

}  // namespace

Result<std::unique_ptr<SafetensorsFile>> SafetensorsFile::open(const FileSystem& files,
                                                               const std::string& path,
                                                               const SafetensorsLimits& limits) {
  TANDEM_TRY(auto file, files.open(path));
  return from(std::move(file), limits);
}

Result<std::unique_ptr<SafetensorsFile>> parse_safetensors(std::vector<std::byte> bytes, std::string label) {
  return from(std::make_unique<MemoryFile>(std::move(bytes), std::move(label)), {});
}

}  // namespace tandem
