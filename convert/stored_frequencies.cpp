#include "convert/stored_frequencies.h"

#include <cmath>

#include "contract/ops/rotary_table.h"

namespace tandem {
namespace {

constexpr double kAllowed = 0.01;

const Node* rotary_table_of(const Contract& contract) {
  for (const auto* blocks : {&contract.blocks, &contract.entries})
    for (const Block& block : *blocks)
      for (const Node& node : block.nodes)
        if (node.op == kRotaryTable.name) return &node;
  return nullptr;
}

bool close(std::span<const float> stored, std::span<const float> expected) {
  if (stored.size() != expected.size()) return false;
  for (size_t i = 0; i < stored.size(); ++i)
    if (!(std::abs(stored[i] - expected[i]) <= kAllowed * expected[i])) return false;
  return true;
}

Result<std::vector<float>> read_floats(const TensorSource& checkpoint, const TensorInfo& info) {
  TANDEM_TRY(const uint64_t count, element_count(info.shape));
  std::vector<std::byte> bytes(count * size_of(info.dtype));
  TANDEM_CHECK(checkpoint.read(info.name, 0, bytes));
  std::vector<float> values(count);
  TANDEM_CHECK(cast(info.dtype, bytes, DType::f32, std::as_writable_bytes(std::span(values))));
  return values;
}

RotaryScaling unscaled(const RotaryScaling& scaling) {
  RotaryScaling plain;
  plain.dim = scaling.dim;
  plain.theta = scaling.theta;
  plain.type = "default";
  return plain;
}

}  // namespace

Result<std::vector<std::string>> odd_frequencies(const Contract& contract,
                                                 const std::vector<std::string>& ignored,
                                                 const TensorSource& checkpoint) {
  std::vector<std::string> lines;
  const Node* node = rotary_table_of(contract);
  if (!node) return lines;
  TANDEM_TRY(const RotaryScaling scaling, rotary_scaling(*node));
  TANDEM_TRY(const RotaryFrequencies scaled, rotary_frequencies(scaling));
  TANDEM_TRY(const RotaryFrequencies plain, rotary_frequencies(unscaled(scaling)));
  for (const std::string& name : ignored) {
    const TensorInfo* info = name.ends_with("rotary_emb.inv_freq") ? checkpoint.find(name) : nullptr;
    if (!info || !is_float(info->dtype)) continue;
    if (info->shape != Shape{scaled.inverse_frequencies.size()}) {
      lines.push_back(fmt::format("{}: shape {}, the config makes {} frequencies", name,
                                  to_string(info->shape), scaled.inverse_frequencies.size()));
      continue;
    }
    TANDEM_TRY(const std::vector<float> stored, read_floats(checkpoint, *info));
    if (close(stored, scaled.inverse_frequencies) || close(stored, plain.inverse_frequencies)) continue;
    lines.push_back(
        fmt::format("{}: the stored frequencies disagree with the config (first: {}, expected {})", name,
                    stored[0], scaled.inverse_frequencies[0]));
  }
  return lines;
}

}  // namespace tandem
