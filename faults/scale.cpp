// Faults of dropped factors: scales of fp8 weights, the routed scaling factor, the embedding's scale.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "faults/edits.h"
#include "faults/rows.h"

namespace tandem {
namespace {

const BlockDequantize* blocks_of(const RuleRow& row) {
  for (const Step& step : row.steps)
    if (const auto* blocks = std::get_if<BlockDequantize>(&step)) return blocks;
  return nullptr;
}

bool is_transposed(const RuleRow& row) {
  return std::ranges::count_if(row.steps,
                               [](const Step& step) { return std::holds_alternative<Transpose>(step); }) %
         2;
}

/// The scale of one element of a stack of matrices: `index` in row-major order of the stored tensor.
struct ScaleOf {
  uint64_t rows, columns;  ///< of a matrix as stored
  uint64_t block_rows, block_columns;
  bool transposed;  ///< the grid lies as the Hugging Face matrix does
  std::vector<std::vector<float>> grids;

  float operator()(size_t index) const {
    uint64_t row = index / columns % rows, column = index % columns;
    const uint64_t hf_columns = transposed ? rows : columns;
    if (transposed) std::swap(row, column);
    const uint64_t grid_columns = (hf_columns + block_columns - 1) / block_columns;
    return grids[index / (rows * columns)][row / block_rows * grid_columns + column / block_columns];
  }
};

Result<std::vector<float>> floats(const HostTensor& tensor) {
  TANDEM_TRY(const HostTensor wide, in_dtype(tensor, DType::f32));
  std::vector<float> numbers(wide.data.size() / sizeof(float));
  std::memcpy(numbers.data(), wide.data.data(), wide.data.size());
  return numbers;
}

/// Divided by its scale and rounded to the code that it was made of.
Result<HostTensor> codes(std::span<const HostTensor> sources, ScaleOf scale) {
  const Shape& shape = sources[0].shape;
  for (const HostTensor& grid : sources.subspan(1)) {
    TANDEM_TRY(std::vector<float> numbers, floats(grid));
    scale.grids.push_back(std::move(numbers));
  }
  const uint64_t hf_rows = scale.transposed ? scale.columns : scale.rows,
                 hf_columns = scale.transposed ? scale.rows : scale.columns;
  const uint64_t expected = ((hf_rows + scale.block_rows - 1) / scale.block_rows) *
                            ((hf_columns + scale.block_columns - 1) / scale.block_columns);
  for (const auto& grid : scale.grids)
    if (grid.size() != expected)
      return invalid("fault_c4", "a grid of {} scales for {}, expected {}", grid.size(), to_string(shape),
                     expected);
  return mapped(sources[0],
                [&](float x, size_t index) { return f8_e4m3_to_f32(f32_to_f8_e4m3(x / scale(index))); });
}

/// The scales of a weight, in the order of its matrices; empty if the checkpoint does not hold all of them.
std::vector<std::string> scales_of(const TensorPlan& plan, const BlockDequantize& blocks,
                                   const FaultContext& context) {
  std::vector<std::string> names;
  for (const std::string& hf : plan.hf) {
    names.push_back(hf + blocks.scale_suffix);
    if (!context.scales.contains(names.back())) return {};
  }
  return names;
}

std::optional<WeightEdit> without_scales(const FaultSite& site, const WeightEntry& weight) {
  for (const RuleRow& row : site.context.rules->rows) {
    const BlockDequantize* blocks = blocks_of(row);
    if (!blocks) continue;
    RuleTable one{site.context.rules->architecture, {row}};
    for (const TensorPlan& plan : expand(one)) {
      if (plan.contract_name != weight.name) continue;
      std::vector<std::string> sources = scales_of(plan, *blocks, site.context);
      if (sources.empty()) return {};
      sources.insert(sources.begin(), weight.name);
      const ScaleOf scale{weight.shape[weight.shape.size() - 2],
                          weight.shape.back(),
                          blocks->block_rows,
                          blocks->block_columns,
                          is_transposed(row),
                          {}};
      return WeightEdit{weight.name, sources,
                        [scale](std::span<const HostTensor> tensors) { return codes(tensors, scale); }};
    }
  }
  return {};
}

Hypotheses fp8(const FaultSite& site) {
  if (!site.context.rules || site.context.scales.empty()) return {};
  if (site.node.op != "linear" && site.node.op != "experts") return {};
  std::vector<WeightEdit> edits;
  for (const Operand& operand : site.node.inputs)
    if (const WeightEntry* weight = weight_at(site, operand); weight && weight->shape.size() >= 2)
      if (auto edit = without_scales(site, *weight)) edits.push_back(std::move(*edit));
  if (edits.empty()) return {};
  return {{{},
           fmt::format("fp8 codes of {} are used without their scales", edits[0].weight),
           {},
           std::move(edits)}};
}

Hypotheses routed_factor(const FaultSite& site) {
  if (site.node.op != "route") return {};
  const double own = float_attribute(site.node, "routed_scaling_factor");
  Hypotheses found;
  for (const double other : {1.0, own * own})
    if (other != own)
      found.push_back({{},
                       fmt::format("routed_scaling_factor {} where the reference has {}", other, own),
                       set_attributes(site.node.outputs[0], {{"routed_scaling_factor", other}}),
                       {}});
  return found;
}

/// Only where the table is not the head's too: the edit is of the stored table.
Hypotheses embedding(const FaultSite& site) {
  const WeightEntry* table = site.node.op == "embedding" ? weight_at(site, site.node.inputs[1]) : nullptr;
  if (!table) return {};
  for (const Node& node : site.block.nodes)
    if (&node != &site.node && std::ranges::find(node.inputs, site.node.inputs[1]) != node.inputs.end())
      return {};
  const auto root = static_cast<float>(std::sqrt(static_cast<double>(table->shape.back())));
  return {
      {{},
       "the embedding is multiplied by sqrt(hidden_size)",
       {},
       {edit_mapped(*table, [root](float x, size_t) { return x * root; })}},
      {{}, "the embedding is divided by sqrt(hidden_size)", {}, {edit_mapped(*table, [root](float x, size_t) {
         return x / root;
       })}}};
}

constexpr FaultRow kRows[] = {
    {"dropped_scale.routing", "dropped scale", "routed_scaling_factor is not applied, or twice",
     routed_factor},
    {"dropped_scale.fp8", "dropped scale", "Codes of fp8 weights are used without their block scales", fp8},
    {"dropped_scale.embedding", "dropped scale",
     "The embedding is multiplied or divided by sqrt(hidden_size), as in other families", embedding},
};

}  // namespace

std::span<const FaultRow> scale_faults() { return kRows; }

}  // namespace tandem
