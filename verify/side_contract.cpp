#include "verify/side_contract.h"

#include "contract/check.h"
#include "contract/text.h"

namespace tandem {
namespace {

Result<HostTensor> read_whole(const TensorSource& source, const TensorInfo& info) {
  TANDEM_TRY(const uint64_t bytes, byte_count(info.dtype, info.shape));
  HostTensor tensor{info.dtype, info.shape, std::vector<std::byte>(bytes)};
  TANDEM_CHECK(source.read(info.name, 0, tensor.data));
  return tensor;
}

}  // namespace

Result<std::unique_ptr<SideContract>> SideContract::open(const Side& side, const ArchOptions& options) {
  auto opened = std::make_unique<SideContract>();
  opened->rules_ = side.rules;
  if (side.dump) {
    TANDEM_TRY(const Model model, model_of(side.opened, options));
    TANDEM_TRY(opened->contract_,
               model.contract(model.rules, DType::f32, [](const auto&) { return DType::f32; }));
    return opened;
  }
  opened->files_ = &side.opened.tensors();
  if (side.opened.folder) {
    TANDEM_TRY(const Model model, model_of(side.opened, options));
    TransformOptions transform;
    transform.fp8_dtype = DType::f32;
    TANDEM_TRY(opened->as_tensorflow_, ToTensorFlow::make(opened->rules_, *side.opened.folder, transform));
    const auto storage = [&](const std::string& name) {
      const TensorInfo* info = opened->as_tensorflow_->find(name);
      return info ? info->dtype : DType::f32;
    };
    TANDEM_TRY(opened->contract_, model.contract(opened->rules_, DType::f32, storage));
  } else {
    const auto text = side.opened.side_files.find(std::string(kContractFile));
    if (text == side.opened.side_files.end())
      return unsupported("verify_c7", "no contract: neither a Hugging Face folder nor a SavedModel of ours")
          .at(side.opened.path);
    TANDEM_TRY(opened->contract_, parse_contract(text->second));
    TANDEM_CHECK(check(opened->contract_));
  }
  opened->plans_ = expand(opened->rules_);
  return opened;
}

FaultContext SideContract::faults() const {
  FaultContext context{&rules_, {}};
  if (!files_) return context;
  for (const TensorInfo& tensor : files_->tensors())
    if (tensor.name.ends_with("_scale_inv")) context.scales.insert(tensor.name);
  return context;
}

Result<HostTensor> SideContract::weight(const std::string& name) const {
  if (!files_) return missing("verify_c8", "no weight {}: a dump has none", name);
  const TensorSource& source = as_tensorflow_ ? static_cast<const TensorSource&>(*as_tensorflow_) : *files_;
  for (const TensorPlan& plan : plans_)
    if (plan.contract_name == name)
      if (const TensorInfo* info = source.find(plan.tf)) return read_whole(source, *info);
  if (const TensorInfo* info = files_->find(name)) return read_whole(*files_, *info);
  return missing("verify_c8", "no weight {}", name);
}

}  // namespace tandem
