#include "convert/edited_tensors.h"

#include <algorithm>

namespace tandem {

EditedTensors::EditedTensors(const TensorSource& tensors, const std::vector<TensorPlan>& plans,
                             const std::vector<WeightEdit>& edits, const TensorSource* originals)
    : tensors_(tensors), originals_(originals) {
  for (const TensorPlan& plan : plans) tf_names_[plan.contract_name] = plan.tf;
  for (const WeightEdit& edit : edits)
    if (const auto tf = tf_names_.find(edit.weight); tf != tf_names_.end()) edit_of_[tf->second] = &edit;
}

Result<HostTensor> EditedTensors::source(const std::string& name) const {
  const auto tf = tf_names_.find(name);
  const TensorSource* from = tf != tf_names_.end() ? &tensors_ : originals_;
  const std::string& name_there = tf != tf_names_.end() ? tf->second : name;
  const TensorInfo* info = from ? from->find(name_there) : nullptr;
  if (!info) return missing("", "there is no tensor {}", name_there);
  TANDEM_TRY(const uint64_t bytes, byte_count(info->dtype, info->shape));
  HostTensor tensor{info->dtype, info->shape, std::vector<std::byte>(bytes)};
  TANDEM_CHECK(from->read(name_there, 0, tensor.data));
  return tensor;
}

Status EditedTensors::make(const WeightEdit& edit, const TensorInfo& info) const {
  made_ = {};
  made_name_.clear();
  std::vector<HostTensor> sources;
  for (const std::string& name : edit.sources) {
    TANDEM_TRY(sources.emplace_back(), source(name));
  }
  TANDEM_TRY(made_, edit.make(sources));
  if (made_.dtype != info.dtype || made_.shape != info.shape)
    return bug("fault_c5", "{} becomes {}{}, expected {}{}", info.name, made_.dtype, to_string(made_.shape),
               info.dtype, to_string(info.shape));
  made_name_ = info.name;
  return {};
}

Status EditedTensors::read(std::string_view tensor, uint64_t byte_offset, std::span<std::byte> out) const {
  const auto edit = edit_of_.find(tensor);
  if (edit == edit_of_.end()) return tensors_.read(tensor, byte_offset, out);
  const std::lock_guard lock(mutex_);
  if (made_name_ != tensor) TANDEM_CHECK(make(*edit->second, *tensors_.find(tensor)));
  if (byte_offset > made_.data.size() || out.size() > made_.data.size() - byte_offset)
    return bug("", "{} bytes from byte {} of {}, which has {}", out.size(), byte_offset, tensor,
               made_.data.size());
  std::copy_n(made_.data.begin() + static_cast<int64_t>(byte_offset), out.size(), out.begin());
  return {};
}

}  // namespace tandem
