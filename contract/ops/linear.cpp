#include "contract/ops/linear.h"

#include "contract/ops/op.h"

namespace tandem {
namespace {

Result<std::vector<TensorType>> infer(const Node& node, std::span<const TensorType> inputs) {
  const TensorType &x = inputs[0], &kernel = inputs[1];
  TANDEM_TRY(const bool out_in, is_out_in(node, "linear_c4"));
  if (!is_float(x.dtype) || x.rank() == 0)
    return invalid("linear_c1", "x is {}, expected a float type and a last axis", x);
  const Dim in = x.shape.back();
  if (kernel.dtype != x.dtype || kernel.rank() != 2 || kernel.shape[out_in ? 1 : 0] != in)
    return invalid("linear_c2", "kernel is {}, expected {} {} with in = {}", kernel, x.dtype,
                   out_in ? "[out, in]" : "[in, out]", to_string(in));
  const Dim out = kernel.shape[out_in ? 0 : 1];
  if (inputs.size() == 3 && inputs[2] != TensorType{x.dtype, {out}})
    return invalid("linear_c3", "bias is {}, expected {}", inputs[2], TensorType{x.dtype, {out}});
  TensorType y = x;
  y.shape.back() = out;
  return std::vector{y};
}

template <class Number>
Outputs<Number> evaluate(const Node& node, std::span<const Value<Number>> inputs) {
  const Value<Number>&x = inputs[0], &kernel = inputs[1];
  const bool out_in = string_attribute(node, "layout") == "out_in";
  const size_t in = x.shape.back(), out = kernel.shape[out_in ? 0 : 1];
  Value<Number> y{x.shape, {}};
  y.shape.back() = out;
  y.data.reserve(rows(x) * out);
  for (size_t row = 0; row < rows(x); ++row) {
    const auto sums =
        row_times_kernel(std::span(x.data).subspan(row * in, in), std::span(kernel.data), out, out_in);
    for (size_t o = 0; o < out; ++o)
      y.data.push_back(static_cast<Number>(inputs.size() == 3 ? sums[o] + inputs[2].data[o] : sums[o]));
  }
  return outputs(std::move(y));
}

}  // namespace

const OpRow kLinear{"linear",       2, 3, {{"layout", AttributeKind::text}}, infer, evaluate<double>,
                    evaluate<float>};

}  // namespace tandem
