#include <algorithm>

#include "rules/computed.h"
#include "rules/problems.h"
#include "rules/row.h"
#include "rules/transform.h"
#include "rules/view.h"

namespace tandem {
namespace {

/// One TensorFlow tensor: its slots (one if it is no stack), each a view of a Hugging Face tensor.
struct Stacked {
  std::vector<View> slots;
  std::vector<const TensorInfo*> scales;  ///< of each slot; nullptr where it is not fp8
  const BlockDequantize* dequantize = nullptr;
  uint64_t slot_elements = 0;
};

class ToTensorFlowSource : public ToTensorFlow, private ComputedTensors {
 public:
  ToTensorFlowSource(const TensorSource& checkpoint, const TransformOptions& options)
      : checkpoint_(checkpoint), options_(options), reader_(options.memory) {}

  Status plan(const RuleTable& table) {
    Problems problems;
    const auto ties = ties_of(table);
    std::vector<TensorInfo> infos;
    for (const TensorPlan& plan : expand(table)) {
      const auto tie = ties.find(plan.row->hf);
      add(plan, tie == ties.end() ? "" : tie->second->hf, infos, problems);
    }
    TANDEM_CHECK(problems.status());
    set_infos(std::move(infos));
    return {};
  }

  const std::vector<TensorInfo>& tensors() const override { return infos(); }
  Status read(std::string_view tensor, uint64_t byte_offset, std::span<std::byte> out) const override {
    return read_bytes(tensor, byte_offset, out);
  }
  std::string location(std::string_view tensor) const override {
    const auto index = index_of(tensor);
    return index ? checkpoint_.location(made_[*index].slots[0].tensor->name) : "rules";
  }
  CastCounts counts(std::string_view tensor) const override { return counts_of(tensor); }
  void release() const override { reader_.release(); }

 private:
  void add(const TensorPlan& plan, const std::string& twin, std::vector<TensorInfo>& infos,
           Problems& problems) {
    Stacked made;
    const RowSteps steps = steps_of(*plan.row);
    made.dequantize = steps.dequantize;
    made.slot_elements = element_count(whole(plan.hf_shape));
    std::optional<DType> dtype;
    for (const std::string& name : plan.hf) {
      const TensorInfo* source = checkpoint_.find(name);
      if (!source && !twin.empty()) source = checkpoint_.find(twin);
      if (!source) return;  // an optional row: a missing tensor of any other was found by match
      const DType slot_dtype = storage_dtype(*plan.row, *source);
      if (dtype && slot_dtype != *dtype)
        return problems.add("transform_c2",
                            "{}: {} is {}, {} is {}; one stack has one dtype (name it with --dtype)", plan.tf,
                            plan.hf[0], *dtype, name, slot_dtype);
      dtype = slot_dtype;
      made.slots.push_back({&checkpoint_, source, {}, plan.hf_shape, steps.axes, slot_dtype});
      made.scales.push_back(nullptr);
      if (source->dtype != DType::f8_e4m3) continue;
      made.scales.back() = checkpoint_.find(source->name + steps.dequantize->scale_suffix);
      if (!options_.check_scales) continue;
      if (const auto grid = scales(made, made.slots.size() - 1); !grid.ok())
        problems.add(grid.error().rule, "{}", grid.error().text);
    }
    infos.push_back({plan.tf, *dtype, plan.tf_shape});
    made_.push_back(std::move(made));
  }

  DType storage_dtype(const RuleRow& row, const TensorInfo& source) const {
    if (row.dtype != "keep") return *dtype_named(row.dtype);
    if (options_.dtype) return *options_.dtype;
    return source.dtype == DType::f8_e4m3 ? options_.fp8_dtype : source.dtype;
  }

  Result<ScaleGrid> scales(const Stacked& made, size_t slot) const {
    return read_scales(checkpoint_, *made.scales[slot], made.slots[slot].source_shape,
                       made.dequantize->block_rows, made.dequantize->block_columns);
  }

  Result<ConvertRun> convert(const Stacked& made, size_t slot) const {
    const View& view = made.slots[slot];
    if (!made.scales[slot]) return cast_run(view.tensor->dtype, view.dtype);
    TANDEM_TRY(ScaleGrid grid, scales(made, slot));
    return dequantize_run(std::move(grid), view.dtype);
  }

  Result<CastCounts> elements(size_t index, uint64_t first, std::span<std::byte> out) const override {
    const Stacked& made = made_[index];
    const size_t element = size_of(infos()[index].dtype);
    CastCounts counts;
    while (!out.empty()) {
      const uint64_t slot = first / made.slot_elements, inside = first % made.slot_elements;
      const uint64_t count = std::min<uint64_t>(out.size() / element, made.slot_elements - inside);
      TANDEM_TRY(const ConvertRun run, convert(made, slot));
      TANDEM_TRY(const CastCounts more,
                 reader_.read(made.slots[slot], run, inside, out.first(count * element)));
      counts += more;
      first += count;
      out = out.subspan(count * element);
    }
    return counts;
  }

  const TensorSource& checkpoint_;
  const TransformOptions options_;
  const ViewReader reader_;
  std::vector<Stacked> made_;  ///< one for each of infos()
};

}  // namespace

Status fits(const RuleTable& table, const TensorSource& checkpoint) {
  TANDEM_CHECK(check(table));
  const Match found = match(table, checkpoint);
  Problems problems;
  for (const std::string& name : found.missing)
    problems.add("transform_c1", "{}: missing from the checkpoint", name);
  for (const std::string& name : found.unexpected) problems.add("transform_c1", "{}: no rule reads it", name);
  for (const std::string& line : found.wrong) problems.add("transform_c1", "{}", line);
  return problems.status();
}

Result<std::unique_ptr<ToTensorFlow>> ToTensorFlow::make(const RuleTable& table,
                                                         const TensorSource& checkpoint,
                                                         TransformOptions options) {
  for (DType dtype : {options.dtype.value_or(DType::f32), options.fp8_dtype})
    if (!is_float(dtype) || size_of(dtype) == 1)
      return usage("transform_c3", "weights cannot be stored as {}; use f32, bf16, f16 or f64", dtype);
  TANDEM_CHECK(fits(table, checkpoint));
  auto source = std::make_unique<ToTensorFlowSource>(checkpoint, options);
  TANDEM_CHECK(source->plan(table));
  return std::unique_ptr<ToTensorFlow>(std::move(source));
}

}  // namespace tandem
