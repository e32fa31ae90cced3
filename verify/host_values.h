#pragma once
// Tensors in memory as plain numbers, and back.

#include <cstring>
#include <vector>

#include "base/dtype.h"
#include "base/host_tensor.h"

namespace tandem {

/// The elements, in row-major order. T must be the tensor's own type.
template <class T>
std::vector<T> values_of(const HostTensor& tensor) {
  std::vector<T> values(tensor.data.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), tensor.data.data(), values.size() * sizeof(T));
  return values;
}

/// A tensor of T's dtype; as many values as the shape has elements.
template <class T>
HostTensor tensor_of(DType dtype, const Shape& shape, const std::vector<T>& values) {
  HostTensor tensor{dtype, shape, std::vector<std::byte>(values.size() * sizeof(T))};
  if (!values.empty()) std::memcpy(tensor.data.data(), values.data(), tensor.data.size());
  return tensor;
}

/// An i32 tensor of the same shape, every element `value`. `tensor` must be i32 itself.
HostTensor filled_like(const HostTensor& tensor, int32_t value);

/// Elements as doubles. Errors: unsupported (verify_c5) for a dtype that is not a number.
Result<std::vector<double>> doubles_of(const HostTensor& tensor);

/// float64 as float32, which is what an engine is given; other dtypes as they are.
HostTensor as_float32(const HostTensor& tensor);

}  // namespace tandem
