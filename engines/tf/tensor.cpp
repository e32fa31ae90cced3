#include "engines/tf/tensor.h"

#include <cstring>

namespace tandem {
namespace {

Result<Owned<TF_Tensor>> allocated(const TfApi& api, DType dtype, const Shape& shape, uint64_t bytes) {
  const std::vector<int64_t> dims(shape.begin(), shape.end());
  Owned<TF_Tensor> tensor(
      api.TF_AllocateTensor(row(dtype).tensorflow, dims.data(), static_cast<int>(dims.size()), bytes),
      api.TF_DeleteTensor);
  if (!tensor || api.TF_TensorByteSize(tensor.get()) != bytes)
    return make_error(ErrorKind::memory, "tf_c8", "TensorFlow did not allocate {} bytes", bytes);
  return tensor;
}

}  // namespace

Result<Owned<TF_Tensor>> to_tensorflow(const TfApi& api, const HostTensor& tensor) {
  TANDEM_TRY(auto made, allocated(api, tensor.dtype, tensor.shape, tensor.data.size()));
  if (!tensor.data.empty())
    std::memcpy(api.TF_TensorData(made.get()), tensor.data.data(), tensor.data.size());
  return made;
}

Result<Owned<TF_Tensor>> zeros(const TfApi& api, DType dtype, const Shape& shape) {
  TANDEM_TRY(const uint64_t bytes, byte_count(dtype, shape));
  TANDEM_TRY(auto made, allocated(api, dtype, shape, bytes));
  if (bytes > 0) std::memset(api.TF_TensorData(made.get()), 0, bytes);
  return made;
}

Shape shape_of(const TfApi& api, const TF_Tensor& tensor) {
  Shape shape;
  for (int axis = 0; axis < api.TF_NumDims(&tensor); ++axis)
    shape.push_back(static_cast<uint64_t>(api.TF_Dim(&tensor, axis)));
  return shape;
}

Result<HostTensor> from_tensorflow(const TfApi& api, const TF_Tensor& tensor, const std::string& name) {
  const auto dtype = dtype_of_tensorflow(api.TF_TensorType(&tensor));
  if (!dtype) return unsupported("tf_c9", "output '{}' is of DataType {}", name, api.TF_TensorType(&tensor));
  HostTensor result{*dtype, shape_of(api, tensor), {}};
  const auto* data = static_cast<const std::byte*>(api.TF_TensorData(&tensor));
  result.data.assign(data, data + api.TF_TensorByteSize(&tensor));
  return result;
}

}  // namespace tandem
