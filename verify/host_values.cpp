#include "verify/host_values.h"

namespace tandem {
namespace {

template <class T>
void widen(const HostTensor& tensor, std::vector<double>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, tensor.data.data() + i * sizeof(T), sizeof(T));
    values[i] = static_cast<double>(value);
  }
}

}  // namespace

HostTensor filled_like(const HostTensor& tensor, int32_t value) {
  return tensor_of(DType::i32, tensor.shape,
                   std::vector<int32_t>(tensor.data.size() / sizeof(int32_t), value));
}

Result<std::vector<double>> doubles_of(const HostTensor& tensor) {
  std::vector<double> values(tensor.data.size() / size_of(tensor.dtype));
  switch (tensor.dtype) {
    case DType::f64:
      widen<double>(tensor, values);
      return values;
    case DType::f32:
      widen<float>(tensor, values);
      return values;
    case DType::i32:
      widen<int32_t>(tensor, values);
      return values;
    case DType::i64:
      widen<int64_t>(tensor, values);
      return values;
    default:
      break;
  }
  if (!is_float(tensor.dtype))
    return unsupported("verify_c5", "a tap of dtype {} cannot be compared", tensor.dtype);
  std::vector<std::byte> wide(values.size() * sizeof(float));
  if (const auto done = cast(tensor.dtype, tensor.data, DType::f32, wide); !done.ok()) return done.error();
  HostTensor as_float{DType::f32, tensor.shape, std::move(wide)};
  widen<float>(as_float, values);
  return values;
}

HostTensor as_float32(const HostTensor& tensor) {
  if (tensor.dtype != DType::f64) return tensor;
  HostTensor narrow{DType::f32, tensor.shape, std::vector<std::byte>(tensor.data.size() / 2)};
  for (size_t i = 0; i < tensor.data.size() / sizeof(double); ++i) {
    double value;
    std::memcpy(&value, tensor.data.data() + i * sizeof(double), sizeof(double));
    const auto rounded = static_cast<float>(value);
    std::memcpy(narrow.data.data() + i * sizeof(float), &rounded, sizeof(float));
  }
  return narrow;
}

}  // namespace tandem
