#pragma once
// Tensors of the C API, owned; and host tensors to them and back.

#include "base/host_tensor.h"
#include "engines/tf/c_api.h"

namespace tandem {

template <class T>
using Owned = std::unique_ptr<T, void (*)(T*)>;

/// Errors: tf_c8 (memory) TensorFlow did not allocate so much.
Result<Owned<TF_Tensor>> to_tensorflow(const TfApi& api, const HostTensor& tensor);
/// Zeros of a shape. Errors: as to_tensorflow.
Result<Owned<TF_Tensor>> zeros(const TfApi& api, DType dtype, const Shape& shape);
Shape shape_of(const TfApi& api, const TF_Tensor& tensor);
/// Errors: tf_c9 (unsupported) a DataType that we have no name for.
Result<HostTensor> from_tensorflow(const TfApi& api, const TF_Tensor& tensor, const std::string& name);

}  // namespace tandem
