#pragma once
// Tensors of the reference evaluator: plain row-major arrays. Integers are held in the same numbers (exact
// below 2^24).

#include <vector>

#include "base/shape.h"

namespace tandem {

template <class Number>
struct Value {
  Shape shape;
  std::vector<Number> data;  ///< row-major, outermost axis first
};

}  // namespace tandem
