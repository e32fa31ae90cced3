#include "base/host_tensor.h"

namespace tandem {

Result<HostTensor> in_dtype(const HostTensor& tensor, DType dtype) {
  HostTensor out{dtype, tensor.shape, {}};
  out.data.resize(tensor.data.size() / size_of(tensor.dtype) * size_of(dtype));
  TANDEM_CHECK(cast(tensor.dtype, tensor.data, dtype, out.data));
  return out;
}

}  // namespace tandem
