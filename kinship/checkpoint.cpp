#include "kinship/checkpoint.h"

#include <unordered_map>

namespace tandem::kinship {
namespace {

using Names = std::map<std::string_view, size_t>;  // to the place among the weights

constexpr uint64_t kUsualBlock = 128;  // of DeepSeek-V3
constexpr uint64_t kSmallestBlock = 16, kLargestBlock = 1024;

bool may_be_scales(const TensorInfo& info) { return info.dtype == DType::f32 && info.shape.size() == 2; }
bool may_have_scales(const TensorInfo& info) {
  return info.dtype == DType::f8_e4m3 && info.shape.size() == 2 && info.shape[0] > 0 && info.shape[1] > 0;
}

/// What must be put behind fp8 names to find the most scales, or nothing.
std::string scale_suffix(const std::vector<Weight>& weights, const Names& names) {
  std::map<std::string, size_t> found;
  for (const Weight& weight : weights) {
    if (!may_have_scales(*weight.info)) continue;
    const std::string_view name = weight.name();
    for (auto next = names.upper_bound(name); next != names.end() && next->first.starts_with(name); ++next)
      if (may_be_scales(*weights[next->second].info)) ++found[std::string(next->first.substr(name.size()))];
  }
  std::pair<std::string, size_t> best;
  for (const auto& entry : found)
    if (entry.second > best.second) best = entry;
  return best.first;
}

/// The blocks that cut `size` into `pieces`.
std::set<uint64_t> fitting_blocks(uint64_t size, uint64_t pieces) {
  std::set<uint64_t> blocks;
  for (uint64_t block = kSmallestBlock; block <= kLargestBlock; block *= 2)
    if (size / block + (size % block != 0) == pieces) blocks.insert(block);
  return blocks;
}

/// The block of all weights along one axis; 0 if there is none.
uint64_t block_along(size_t axis, const std::vector<std::pair<const TensorInfo*, const TensorInfo*>>& pairs) {
  std::map<uint64_t, size_t> fitting;
  for (const auto& [weight, scales] : pairs)
    for (const uint64_t block : fitting_blocks(weight->shape[axis], scales->shape[axis])) ++fitting[block];
  if (fitting[kUsualBlock] == pairs.size()) return kUsualBlock;
  for (const auto& [block, count] : fitting)
    if (count == pairs.size()) return block;
  return 0;
}

void find_scales(Checkpoint& checkpoint) {
  Names names;
  for (size_t i = 0; i < checkpoint.weights.size(); ++i) names[checkpoint.weights[i].name()] = i;
  const std::string suffix = scale_suffix(checkpoint.weights, names);
  if (suffix.empty()) return;
  std::vector<std::pair<const TensorInfo*, const TensorInfo*>> pairs;
  std::vector<size_t> scaled;
  for (size_t i = 0; i < checkpoint.weights.size(); ++i) {
    const TensorInfo& info = *checkpoint.weights[i].info;
    const auto scales = names.find(info.name + suffix);
    if (!may_have_scales(info) || scales == names.end()) continue;
    if (!may_be_scales(*checkpoint.weights[scales->second].info)) continue;
    pairs.emplace_back(&info, checkpoint.weights[scales->second].info);
    scaled.push_back(i);
  }
  const uint64_t rows = block_along(0, pairs), columns = block_along(1, pairs);
  if (rows == 0 || columns == 0) return;
  checkpoint.blocks = BlockDequantize{rows, columns, suffix};
  for (size_t i = 0; i < pairs.size(); ++i) checkpoint.weights[scaled[i]].scales = pairs[i].second;
}

}  // namespace

Result<Checkpoint> read_checkpoint(const TensorSource& source) {
  Checkpoint checkpoint{&source, {}, {}};
  for (const TensorInfo& info : source.tensors()) {
    TANDEM_CHECK(byte_count(info.dtype, info.shape));
    TANDEM_TRY(const uint64_t count, element_count(info.shape));
    checkpoint.weights.push_back({&info, nullptr, count});
  }
  find_scales(checkpoint);
  return checkpoint;
}

std::vector<DType> common_dtypes(Kind a, Kind b) {
  if (a == b) return {a.dtype};
  const auto values = [](Kind kind) { return kind.scaled ? DType::f32 : kind.dtype; };
  const DType left = values(a), right = values(b);
  if (left == right && is_float(left)) return {left};
  if (!is_float(left) || !is_float(right)) return {};
  if (size_of(left) == size_of(right)) return {left, right};
  return {size_of(left) < size_of(right) ? left : right};
}

Result<ConvertRun> converter(const Checkpoint& checkpoint, const Weight& weight, DType as) {
  if (as == weight.info->dtype || !weight.scales) return cast_run(weight.info->dtype, as);
  TANDEM_TRY(ScaleGrid grid, read_scales(*checkpoint.source, *weight.scales, weight.shape(),
                                         checkpoint.blocks->block_rows, checkpoint.blocks->block_columns));
  return dequantize_run(std::move(grid), as);
}

}  // namespace tandem::kinship
