#include <algorithm>
#include <cmath>
#include <set>

#include "rules/computed.h"
#include "rules/problems.h"
#include "rules/row.h"
#include "rules/transform.h"
#include "rules/view.h"

namespace tandem {
namespace {

/// Where one Hugging Face tensor comes from.
struct Returned {
  TensorInfo info;
  std::optional<View> view;                 ///< a weight: the TensorFlow tensor, seen the other way round
  const TensorInfo* scales = nullptr;       ///< an fp8 weight, or scales themselves: like's scales
  const BlockDequantize* blocks = nullptr;  ///< with scales
  std::string weight;                       ///< scales: the name of their weight
};

/// Reads a view as f32 in the source's own order, a buffer at a time.
Status for_each_f32(const View& view,
                    const std::function<void(uint64_t first, std::span<const float>)>& visit) {
  const uint64_t size = element_count(whole(view.source_shape));
  const uint64_t limit = 1 << 16;
  std::vector<std::byte> bytes(limit * size_of(view.tensor->dtype));
  std::vector<float> values(limit);
  for (uint64_t first = 0; first < size; first += limit) {
    const uint64_t count = std::min(limit, size - first);
    const auto piece = std::span(bytes).first(count * size_of(view.tensor->dtype));
    const auto made = std::span(values).first(count);
    TANDEM_CHECK(view.read_source(first, piece));
    TANDEM_CHECK(cast(view.tensor->dtype, piece, DType::f32, std::as_writable_bytes(made)));
    visit(first, made);
  }
  return {};
}

bool fits_e4m3(float value, float scale) { return (f32_to_f8_e4m3(value / scale) & 0x7f) != 0x7f; }

/// Replaces the scales of blocks whose largest value does not fit. True if there were any.
Result<bool> remake(const View& view, ScaleGrid& grid) {
  std::vector<float> largest(grid.scales.size(), 0.0f);
  TANDEM_CHECK(for_each_f32(view, [&](uint64_t first, std::span<const float> values) {
    grid.for_each_piece(first, values.size(), [&](uint64_t offset, uint64_t count, uint64_t block) {
      for (float value : values.subspan(offset, count))
        if (std::isfinite(value)) largest[block] = std::max(largest[block], std::abs(value));
    });
  }));
  bool changed = false;
  for (size_t i = 0; i < largest.size(); i++) {
    if (fits_e4m3(largest[i], grid.scales[i])) continue;
    grid.scales[i] = largest[i] / 448;
    changed = true;
  }
  return changed;
}

class ToHuggingFaceSource : public ToHuggingFace, private ComputedTensors {
 public:
  ToHuggingFaceSource(const TensorSource& tensorflow, const BackOptions& options)
      : tensorflow_(tensorflow), options_(options), reader_(options.memory) {}

  Status plan(const RuleTable& table) {
    Problems problems;
    const auto ties = ties_of(table);
    std::set<std::string> used;
    for (const TensorPlan& plan : expand(table)) {
      const auto tie = ties.find(plan.row->hf);
      if (add(plan, tie == ties.end() ? nullptr : tie->second, problems)) used.insert(plan.tf);
    }
    TANDEM_CHECK(problems.status());
    for (const TensorInfo& tensor : tensorflow_.tensors())
      if (!used.contains(tensor.name)) unused_.push_back(tensor.name);
    copy_the_rest();
    std::sort(made_.begin(), made_.end(),
              [](const Returned& a, const Returned& b) { return natural_less(a.info.name, b.info.name); });
    std::vector<TensorInfo> infos;
    for (const Returned& made : made_) infos.push_back(made.info);
    set_infos(std::move(infos));
    return {};
  }

  const std::vector<TensorInfo>& tensors() const override { return infos(); }
  Status read(std::string_view tensor, uint64_t byte_offset, std::span<std::byte> out) const override {
    return read_bytes(tensor, byte_offset, out);
  }
  std::string location(std::string_view tensor) const override {
    const auto index = index_of(tensor);
    if (!index) return "rules";
    const Returned& made = made_[*index];
    return made.view ? tensorflow_.location(made.view->tensor->name)
                     : options_.like->location(made.info.name);
  }
  CastCounts counts(std::string_view tensor) const override { return counts_of(tensor); }
  std::vector<std::string> remade_scales() const override {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> names;
    for (const auto& [index, grid] : remade_) names.push_back(infos()[index].name);
    return names;
  }
  std::vector<std::string> copied() const override { return copied_; }
  std::vector<std::string> unused() const override { return unused_; }

 private:
  /// True if something on the Hugging Face side is made of the plan's tensor.
  bool add(const TensorPlan& plan, const RuleRow* tie, Problems& problems) {
    std::vector<std::string> names = plan.hf;
    if (options_.like) {
      if (tie) names.push_back(tie->hf);
      std::erase_if(names, [&](const std::string& name) { return !options_.like->find(name); });
    }
    const TensorInfo* tensor = tensorflow_.find(plan.tf);
    if (!tensor) {
      if (!plan.row->optional || (options_.like && !names.empty()))
        problems.add("transform_c4", "{}: missing from the TensorFlow side", plan.tf);
      return true;
    }
    if (tensor->shape != plan.tf_shape)
      problems.add("transform_c4", "{}: shape {}, expected {}", plan.tf, to_string(tensor->shape),
                   to_string(plan.tf_shape));
    if (!is_float(tensor->dtype) || size_of(tensor->dtype) == 1)
      problems.add("transform_c4", "{}: dtype {}, expected bf16, f16, f32 or f64", plan.tf, tensor->dtype);
    const bool stacked = steps_of(*plan.row).stack != nullptr;
    for (size_t i = 0; i < names.size(); i++)
      add_weight(plan, *tensor, names[i], stacked ? std::optional<uint64_t>(i) : std::nullopt);
    return !names.empty();
  }

  void add_weight(const TensorPlan& plan, const TensorInfo& tensor, const std::string& name,
                  std::optional<uint64_t> slot) {
    const RowSteps steps = steps_of(*plan.row);
    std::vector<uint64_t> back(steps.axes.size());
    for (uint64_t i = 0; i < back.size(); i++) back[steps.axes[i]] = i;
    const DType dtype = returned_dtype(*plan.row, tensor, name);
    Returned made{{name, dtype, plan.hf_shape}, {}, nullptr, nullptr, {}};
    made.view = View{&tensorflow_, &tensor, slot, permuted(plan.hf_shape, steps.axes), back, dtype};
    if (dtype == DType::f8_e4m3) {
      made.blocks = steps.dequantize;
      made.scales = options_.like->find(name + steps.dequantize->scale_suffix);
      made_.push_back({*made.scales, {}, made.scales, made.blocks, name});
    }
    made_.push_back(std::move(made));
  }

  DType returned_dtype(const RuleRow& row, const TensorInfo& tensor, const std::string& name) const {
    if (options_.like) return options_.like->find(name)->dtype;
    if (row.dtype != "keep") return *dtype_named(row.dtype);
    return options_.dtype.value_or(tensor.dtype);
  }

  void copy_the_rest() {
    if (!options_.like) return;
    std::set<std::string> made;
    for (const Returned& tensor : made_) made.insert(tensor.info.name);
    for (const TensorInfo& tensor : options_.like->tensors()) {
      if (made.contains(tensor.name)) continue;
      copied_.push_back(tensor.name);
      made_.push_back({tensor, {}, nullptr, nullptr, {}});
    }
  }

  /// The scales of weight `index`, in its own orientation: like's, but for blocks that outgrew them.
  Result<ScaleGrid> scales(size_t index) const {
    const Returned& weight = made_[index];
    const std::lock_guard lock(mutex_);
    if (const auto at = remade_.find(index); at != remade_.end()) return at->second;
    TANDEM_TRY(ScaleGrid grid, read_scales(*options_.like, *weight.scales, weight.info.shape,
                                           weight.blocks->block_rows, weight.blocks->block_columns));
    if (!unchanged_.contains(index)) {
      const bool transposed = !std::is_sorted(weight.view->axes.begin(), weight.view->axes.end());
      ScaleGrid turned = transposed ? grid.transposed() : grid;
      TANDEM_TRY(const bool changed, remake(*weight.view, turned));
      if (changed) return remade_[index] = transposed ? turned.transposed() : turned;
      unchanged_.insert(index);
    }
    return grid;
  }

  Result<ConvertRun> convert(size_t index) const {
    const View& view = *made_[index].view;
    if (!made_[index].scales) return cast_run(view.tensor->dtype, view.dtype);
    TANDEM_TRY(ScaleGrid grid, scales(index));
    const bool transposed = !std::is_sorted(view.axes.begin(), view.axes.end());
    return quantize_run(transposed ? grid.transposed() : std::move(grid), view.tensor->dtype);
  }

  Result<CastCounts> elements(size_t index, uint64_t first, std::span<std::byte> out) const override {
    const Returned& made = made_[index];
    if (made.view) {
      TANDEM_TRY(const ConvertRun run, convert(index));
      return reader_.read(*made.view, run, first, out);
    }
    if (!made.scales) {
      TANDEM_CHECK(options_.like->read(made.info.name, first * size_of(made.info.dtype), out));
      return CastCounts{};
    }
    TANDEM_TRY(const ScaleGrid grid, scales(*index_of(made.weight)));
    const auto bytes = std::as_bytes(std::span(grid.scales)).subspan(first * sizeof(float), out.size());
    std::copy(bytes.begin(), bytes.end(), out.begin());
    return CastCounts{};
  }

  const TensorSource& tensorflow_;
  const BackOptions options_;
  const ViewReader reader_;
  std::vector<Returned> made_;  ///< one for each of infos()
  std::vector<std::string> copied_, unused_;
  mutable std::mutex mutex_;
  mutable std::map<size_t, ScaleGrid> remade_;  ///< by weight
  mutable std::set<size_t> unchanged_;          ///< weights whose values all fit like's scales
};

}  // namespace

Result<std::unique_ptr<ToHuggingFace>> ToHuggingFace::make(const RuleTable& table,
                                                           const TensorSource& tensorflow,
                                                           BackOptions options) {
  if (options.dtype && (!is_float(*options.dtype) || size_of(*options.dtype) == 1))
    return usage("transform_c3",
                 "weights cannot be stored as {} without the original; use f32, bf16, f16 or f64",
                 *options.dtype);
  if (!options.like) TANDEM_CHECK(check(table));
  if (options.like) TANDEM_CHECK(fits(table, *options.like));
  auto source = std::make_unique<ToHuggingFaceSource>(tensorflow, options);
  TANDEM_CHECK(source->plan(table));
  return std::unique_ptr<ToHuggingFace>(std::move(source));
}

}  // namespace tandem
