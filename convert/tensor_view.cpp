#include "convert/tensor_view.h"

#include <algorithm>

namespace tandem {
namespace {

Result<uint64_t> bytes_of(const TensorSource& source, std::string_view tensor) {
  const TensorInfo* info = source.find(tensor);
  if (!info) return missing("", "there is no tensor {}", tensor);
  return byte_count(info->dtype, info->shape);
}

}  // namespace

Result<uint64_t> total_bytes(const TensorSource& source) {
  uint64_t total = 0;
  for (const TensorInfo& info : source.tensors()) {
    TANDEM_TRY(const uint64_t bytes, byte_count(info.dtype, info.shape));
    const std::optional<uint64_t> sum = checked_add(total, bytes);
    if (!sum) return corrupt("shape_c1", "the sizes of all tensors overflow at {}", info.name);
    total = *sum;
  }
  return total;
}

void TensorView::add(TensorInfo info, const TensorSource& source, std::string name_there) {
  origins_[info.name] = {&source, std::move(name_there)};
  infos_.push_back(std::move(info));
}

void TensorView::add_all(const TensorSource& source) {
  for (const TensorInfo& info : source.tensors()) add(info, source, info.name);
}

void TensorView::sort() {
  std::sort(infos_.begin(), infos_.end(),
            [](const TensorInfo& a, const TensorInfo& b) { return natural_less(a.name, b.name); });
}

Status TensorView::read(std::string_view tensor, uint64_t byte_offset, std::span<std::byte> out) const {
  const auto origin = origins_.find(tensor);
  if (origin == origins_.end()) return missing("", "there is no tensor {}", tensor);
  return origin->second.source->read(origin->second.name, byte_offset, out);
}

std::string TensorView::location(std::string_view tensor) const {
  const auto origin = origins_.find(tensor);
  return origin == origins_.end() ? "" : origin->second.source->location(origin->second.name);
}

WatchedSource::WatchedSource(const TensorSource& source, std::function<Status(uint64_t)> on_read)
    : source_(source), on_read_(std::move(on_read)) {}

Status WatchedSource::read(std::string_view tensor, uint64_t byte_offset, std::span<std::byte> out) const {
  TANDEM_CHECK(source_.read(tensor, byte_offset, out));
  const std::lock_guard lock(mutex_);
  if (byte_offset == 0) {
    TANDEM_TRY(bytes_, bytes_of(*this, tensor));
    current_ = tensor;
    next_ = 0;
    hash_.begin();
    crc_ = 0;
  }
  if (current_ == tensor && next_ == byte_offset) {
    hash_.update(out);
    crc_ = tandem::crc32c(crc_, out);
    next_ += out.size();
    if (next_ == bytes_) {
      hash_.end(current_);
      crcs_[current_] = crc_;
      current_.clear();
    }
  }
  return on_read_ ? on_read_(out.size()) : Status{};
}

std::string WatchedSource::sha256(std::string_view tensor) const {
  const std::lock_guard lock(mutex_);
  return hash_.hex(tensor);
}

uint32_t WatchedSource::crc32c(std::string_view tensor) const {
  const std::lock_guard lock(mutex_);
  const auto crc = crcs_.find(tensor);
  return crc == crcs_.end() ? 0 : crc->second;
}

}  // namespace tandem
