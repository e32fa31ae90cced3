#include "convert/saved_model_folder.h"

#include "formats/tensor_bundle/tensor_bundle.h"

namespace tandem {

std::vector<TensorPlan> in_graph(const std::vector<TensorPlan>& plans) {
  std::vector<TensorPlan> chosen;
  for (const TensorPlan& plan : plans)
    if (plan.row->in_graph) chosen.push_back(plan);
  return chosen;
}

Status write_bundle(const FileSystem& files, const std::string& prefix, const SavedModelSpec& spec,
                    const std::vector<TensorPlan>& plans, const TensorSource& tensors) {
  TANDEM_TRY(const auto writer, TensorBundleWriter::create(files, prefix));
  TANDEM_CHECK(writer->add_string(std::string(kObjectGraphKey), checkpoint_object_graph(spec.variables)));
  for (const TensorPlan& tensor : plans) {
    const TensorInfo* info = tensors.find(tensor.tf);
    if (!info) return bug("", "the rules made no tensor {}", tensor.tf);
    TANDEM_CHECK(writer->add(
        value_key(tensor.tf), info->dtype, info->shape,
        [&](uint64_t offset, std::span<std::byte> out) { return tensors.read(tensor.tf, offset, out); }));
  }
  return writer->finish();
}

Status write_saved_model_folder(const FileSystem& files, const std::string& folder,
                                const SavedModelSpec& spec, const std::vector<TensorPlan>& plans,
                                const TensorSource& tensors) {
  TANDEM_CHECK(files.make_directories(join(folder, "variables")));
  TANDEM_CHECK(write_bundle(files, join(folder, "variables/variables"), spec, plans, tensors));
  return write_saved_model(files, folder, spec);
}

}  // namespace tandem
