#include "engines/seen_rows.h"

#include <algorithm>
#include <cstring>

namespace tandem {
namespace {

const HostTensor* matrix(const HostTensors& inputs, const std::string& name) {
  const auto found = inputs.find(name);
  if (found == inputs.end() || found->second.dtype != DType::i32 || found->second.shape.size() != 2)
    return nullptr;
  const HostTensor& tensor = found->second;
  const auto count = element_count(tensor.shape);
  return count.ok() && count.value() * sizeof(int32_t) == tensor.data.size() ? &tensor : nullptr;
}

std::vector<int32_t> numbers(const HostTensor& tensor) {
  std::vector<int32_t> values(tensor.data.size() / sizeof(int32_t));
  if (!values.empty()) std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

/// True if every row of `longer` begins with the row of `rows`, and goes on for one more.
bool extends(const std::vector<int32_t>& longer, const std::vector<int32_t>& rows, uint64_t batch,
             uint64_t tokens) {
  for (uint64_t row = 0; row < batch; ++row)
    if (!std::equal(rows.begin() + row * tokens, rows.begin() + (row + 1) * tokens,
                    longer.begin() + row * (tokens + 1)))
      return false;
  return true;
}

}  // namespace

bool SeenRows::are_continued_by(const HostTensors& inputs) const {
  if (tokens_ == 0 || !positions_follow_mask(inputs)) return false;
  const HostTensor &ids = inputs.at("input_ids"), &mask = inputs.at("attention_mask");
  if (ids.shape != Shape{batch_, tokens_ + 1}) return false;
  const std::vector<int32_t> new_ids = numbers(ids), new_mask = numbers(mask);
  for (uint64_t row = 0; row < batch_; ++row)
    if (new_mask[(row + 1) * (tokens_ + 1) - 1] != 1) return false;
  return extends(new_ids, ids_, batch_, tokens_) && extends(new_mask, mask_, batch_, tokens_);
}

void SeenRows::remember(const HostTensors& inputs) {
  const HostTensor& ids = inputs.at("input_ids");
  batch_ = ids.shape[0];
  tokens_ = ids.shape[1];
  ids_ = numbers(ids);
  mask_ = numbers(inputs.at("attention_mask"));
}

bool positions_follow_mask(const HostTensors& inputs) {
  const HostTensor *ids = matrix(inputs, "input_ids"), *mask = matrix(inputs, "attention_mask"),
                   *positions = matrix(inputs, "position_ids");
  if (inputs.size() != 3 || !ids || !mask || !positions) return false;
  if (ids->shape != mask->shape || ids->shape != positions->shape || ids->data.empty()) return false;
  const std::vector<int32_t> seen = numbers(*mask), given = numbers(*positions);
  const uint64_t tokens = mask->shape[1];
  int32_t count = 0;
  for (size_t i = 0; i < seen.size(); ++i) {
    if (i % tokens == 0) count = 0;
    if (seen[i] != 0 && seen[i] != 1) return false;
    count += seen[i];
    if (seen[i] == 1 && given[i] != count - 1) return false;
  }
  return true;
}

HostTensor last_column(const HostTensor& tensor) {
  const uint64_t batch = tensor.shape[0], tokens = tensor.shape[1], size = size_of(tensor.dtype);
  HostTensor column{tensor.dtype, {batch, 1}, {}};
  for (uint64_t row = 0; row < batch; ++row) {
    const auto end = tensor.data.begin() + static_cast<std::ptrdiff_t>((row + 1) * tokens * size);
    column.data.insert(column.data.end(), end - static_cast<std::ptrdiff_t>(size), end);
  }
  return column;
}

}  // namespace tandem
