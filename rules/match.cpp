// A checkpoint against a table, by names, shapes and dtypes.

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "rules/row.h"

namespace tandem {
namespace {

bool is_row_dtype(DType dtype) { return is_float(dtype) && size_of(dtype) > 1; }

Result<bool> same_bytes(const TensorSource& source, const TensorInfo& a, const TensorInfo& b) {
  TANDEM_TRY(const uint64_t size, byte_count(a.dtype, a.shape));
  std::vector<std::byte> left(std::min<uint64_t>(size, 1 << 20)), right(left.size());
  for (uint64_t offset = 0; offset < size; offset += left.size()) {
    const size_t count = std::min<uint64_t>(left.size(), size - offset);
    TANDEM_CHECK(source.read(a.name, offset, std::span(left).first(count)));
    TANDEM_CHECK(source.read(b.name, offset, std::span(right).first(count)));
    if (std::memcmp(left.data(), right.data(), count) != 0) return false;
  }
  return true;
}

class Matcher {
 public:
  Matcher(const RuleTable& table, const TensorSource& checkpoint)
      : table_(table), checkpoint_(checkpoint), ties_(ties_of(table)) {
    for (const TensorInfo& tensor : checkpoint.tensors()) there_[tensor.name] = &tensor;
  }

  Match run() && {
    for (const RuleRow& row : table_.rows) {
      if (!row.ignore.empty())
        ignored(row);
      else if (makes_tensor(row))
        for (const TensorPlan& plan : expand(row)) sources(plan);
    }
    if (carried_) match_.missing.insert(match_.missing.end(), left_out_.begin(), left_out_.end());
    for (const TensorInfo& tensor : checkpoint_.tensors())
      if (!used_.contains(tensor.name)) match_.unexpected.push_back(tensor.name);
    return std::move(match_);
  }

 private:
  /// The tensor of that name, which is then accounted for.
  const TensorInfo* use(const std::string& name) {
    const auto at = there_.find(name);
    if (at == there_.end()) return nullptr;
    used_.insert(at->first);
    return at->second;
  }

  void ignored(const RuleRow& row) {
    for (const std::string& name : hf_names(row))
      if (use(name)) match_.ignored.push_back(fmt::format("{}: {}", name, row.ignore));
  }

  void sources(const TensorPlan& plan) {
    const auto tie = ties_.find(plan.row->hf);
    const TensorInfo* twin = tie == ties_.end() ? nullptr : use(tie->second->hf);
    if (twin) weight(*plan.row, *twin);
    std::vector<std::string> absent;
    for (const std::string& name : plan.hf) {
      const TensorInfo* tensor = use(name);
      if (tensor) weight(*plan.row, *tensor);
      if (tensor && twin) twins(*tensor, *twin);
      if (!tensor && !twin) absent.push_back(name);
    }
    const bool carried = plan.row->optional && !plan.row->in_graph;
    if (plan.row->optional && absent.size() == plan.hf.size()) {
      if (carried) left_out_.insert(left_out_.end(), absent.begin(), absent.end());
      return;
    }
    carried_ |= carried;
    for (std::string& name : absent) match_.missing.push_back(std::move(name));
  }

  void weight(const RuleRow& row, const TensorInfo& tensor) {
    expect_shape(tensor, row.sizes);
    const BlockDequantize* dequantize = steps_of(row).dequantize;
    if (dequantize && tensor.dtype == DType::f8_e4m3) return scale(row, *dequantize, tensor);
    if (!is_row_dtype(tensor.dtype))
      wrong("{}: dtype {}, expected bf16, f16, f32 or f64{}", tensor.name, tensor.dtype,
            dequantize ? ", or f8_e4m3 with scales" : "");
  }

  void scale(const RuleRow& row, const BlockDequantize& dequantize, const TensorInfo& tensor) {
    const TensorInfo* scales = use(tensor.name + dequantize.scale_suffix);
    if (!scales)
      return wrong("{}: an f8_e4m3 weight without its scales {}{}", tensor.name, tensor.name,
                   dequantize.scale_suffix);
    expect_shape(*scales, scale_shape(dequantize, row.sizes));
    if (scales->dtype != DType::f32) wrong("{}: dtype {}, expected f32", scales->name, scales->dtype);
  }

  void twins(const TensorInfo& tensor, const TensorInfo& twin) {
    match_.tied.push_back(twin.name);
    if (tensor.dtype != twin.dtype || tensor.shape != twin.shape)
      return wrong("{}: {}{}, but it is tied to {}, which is {}{}", twin.name, twin.dtype,
                   to_string(twin.shape), tensor.name, tensor.dtype, to_string(tensor.shape));
    const auto same = same_bytes(checkpoint_, tensor, twin);
    if (!same.ok())
      wrong("{}: {}", twin.name, same.error().message());
    else if (!same.value())
      wrong("{}: tied to {}, but its values differ", twin.name, tensor.name);
  }

  void expect_shape(const TensorInfo& tensor, const Shape& shape) {
    if (tensor.shape != shape)
      wrong("{}: shape {}, expected {}", tensor.name, to_string(tensor.shape), to_string(shape));
  }

  template <class... Args>
  void wrong(fmt::format_string<Args...> format, Args&&... args) {
    match_.wrong.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  const RuleTable& table_;
  const TensorSource& checkpoint_;
  const std::map<std::string, const RuleRow*> ties_;
  std::unordered_map<std::string_view, const TensorInfo*> there_;
  std::unordered_set<std::string_view> used_;
  bool carried_ = false;               ///< some tensor that is carried without a variable is there
  std::vector<std::string> left_out_;  ///< those of the carried ones that are not
  Match match_;
};

}  // namespace

Match match(const RuleTable& table, const TensorSource& checkpoint) {
  return Matcher(table, checkpoint).run();
}

}  // namespace tandem
