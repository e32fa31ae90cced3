#pragma once
// Types of contract values: a dtype, and a shape whose axes are fixed sizes or names ("batch", "tokens").

#include <string>
#include <vector>

#include "base/shape.h"

namespace tandem {

/// One axis: a fixed size, or a name for a size that is known when the model runs.
struct Dim {
  uint64_t size = 0;
  std::string symbol;  ///< empty for a fixed size
  Dim() = default;
  Dim(uint64_t fixed) : size(fixed) {}
  Dim(int fixed) : size(static_cast<uint64_t>(fixed)) {}
  Dim(const char* name) : symbol(name) {}
  Dim(std::string name) : symbol(std::move(name)) {}
  bool fixed() const { return symbol.empty(); }
  bool operator==(const Dim&) const = default;
};

struct TensorType {
  DType dtype = DType::f32;
  std::vector<Dim> shape;
  size_t rank() const { return shape.size(); }
  bool operator==(const TensorType&) const = default;
};

/// "160" or "batch".
std::string to_string(const Dim& dim);
/// "f32[batch, tokens, 160]"; "i32[]" for a scalar.
std::string to_string(const TensorType& type);
/// The inverse of to_string; spaces are free. Errors: type_c1 for anything else.
Result<TensorType> parse_type(std::string_view text);

// Short forms for tests and builders: f32({"batch", "tokens", 160}).
inline TensorType f64(std::vector<Dim> shape) { return {DType::f64, std::move(shape)}; }
inline TensorType f32(std::vector<Dim> shape) { return {DType::f32, std::move(shape)}; }
inline TensorType bf16(std::vector<Dim> shape) { return {DType::bf16, std::move(shape)}; }
inline TensorType i32(std::vector<Dim> shape) { return {DType::i32, std::move(shape)}; }

}  // namespace tandem

template <>
struct fmt::formatter<tandem::TensorType> : fmt::formatter<std::string> {
  auto format(const tandem::TensorType& type, format_context& context) const {
    return fmt::formatter<std::string>::format(tandem::to_string(type), context);
  }
};
