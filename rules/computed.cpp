#include "rules/computed.h"

#include <algorithm>

namespace tandem {

void ComputedTensors::set_infos(std::vector<TensorInfo> infos) {
  infos_ = std::move(infos);
  for (size_t i = 0; i < infos_.size(); i++) index_[infos_[i].name] = i;
  counts_.resize(infos_.size());
}

std::optional<size_t> ComputedTensors::index_of(std::string_view tensor) const {
  const auto at = index_.find(tensor);
  return at == index_.end() ? std::nullopt : std::optional(at->second);
}

Status ComputedTensors::read_bytes(std::string_view tensor, uint64_t byte_offset,
                                   std::span<std::byte> out) const {
  const auto index = index_of(tensor);
  if (!index) return missing({}, "no tensor \"{}\" in the rules", tensor);
  const TensorInfo& info = infos_[*index];
  TANDEM_TRY(const uint64_t size, byte_count(info.dtype, info.shape));
  if (byte_offset > size || out.size() > size - byte_offset)
    return corrupt({}, "{} bytes from byte {} of {}, which has {}", out.size(), byte_offset, tensor, size);
  const size_t element = size_of(info.dtype);
  while (!out.empty()) {
    const uint64_t first = byte_offset / element, inside = byte_offset % element;
    size_t count = out.size() / element * element;
    if (inside == 0 && count > 0) {
      TANDEM_CHECK(add_elements(*index, first, out.first(count)));
    } else {
      std::array<std::byte, 8> one;
      TANDEM_CHECK(add_elements(*index, first, std::span(one).first(element)));
      count = std::min<size_t>(element - inside, out.size());
      std::copy_n(one.begin() + inside, count, out.begin());
    }
    byte_offset += count;
    out = out.subspan(count);
  }
  return {};
}

Status ComputedTensors::add_elements(size_t index, uint64_t first, std::span<std::byte> out) const {
  TANDEM_TRY(const CastCounts counts, elements(index, first, out));
  const std::lock_guard lock(mutex_);
  counts_[index] += counts;
  return {};
}

CastCounts ComputedTensors::counts_of(std::string_view tensor) const {
  const auto index = index_of(tensor);
  const std::lock_guard lock(mutex_);
  return index ? counts_[*index] : CastCounts{};
}

}  // namespace tandem
