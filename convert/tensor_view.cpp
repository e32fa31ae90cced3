#include "convert/tensor_view.h"

#include <algorithm>

namespace tandem {
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

std::unique_ptr<FileWindow> TensorView::window(std::string_view tensor, uint64_t byte_offset,
                                               uint64_t size) const {
  const auto origin = origins_.find(tensor);
  if (origin == origins_.end()) return nullptr;
  return origin->second.source->window(origin->second.name, byte_offset, size);
}

std::string TensorView::location(std::string_view tensor) const {
  const auto origin = origins_.find(tensor);
  return origin == origins_.end() ? "" : origin->second.source->location(origin->second.name);
}

}  // namespace tandem
