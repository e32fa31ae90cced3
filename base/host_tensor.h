#pragma once
// A tensor in memory, without a name: what engines exchange and what weights are edited as.

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "base/shape.h"

namespace tandem {

struct HostTensor {
  DType dtype = DType::f32;
  Shape shape;
  std::vector<std::byte> data;  ///< row-major, little-endian
};
using HostTensors = std::map<std::string, HostTensor>;

/// The same values in another float dtype, rounded to nearest, ties to even. Errors: those of cast.
Result<HostTensor> in_dtype(const HostTensor& tensor, DType dtype);

}  // namespace tandem
