#include "contract/ops/head_linear.h"

#include "contract/ops/op.h"

namespace tandem {
namespace {

Result<std::vector<TensorType>> infer(const Node& node, std::span<const TensorType> inputs) {
  const TensorType &x = inputs[0], &kernel = inputs[1];
  TANDEM_TRY(const bool out_in, is_out_in(node, "head_linear_c5"));
  if (!is_float_of_rank(x, 4) || !x.shape[1].fixed() || x.shape[1].size == 0)
    return invalid("head_linear_c1", "x is {}, expected a float type and [batch, heads, tokens, n]", x);
  const uint64_t heads = x.shape[1].size;
  if (kernel.dtype != x.dtype || kernel.rank() != 2 || !kernel.shape[0].fixed() || !kernel.shape[1].fixed() ||
      kernel.shape[out_in ? 0 : 1].size % heads != 0)
    return invalid("head_linear_c2", "kernel is {}, expected {} {} for {} heads", kernel, x.dtype,
                   out_in ? "[heads * width, in]" : "[in, heads * width]", heads);
  const uint64_t width = kernel.shape[out_in ? 0 : 1].size / heads;
  const int64_t begin = int_attribute(node, "begin"), size = int_attribute(node, "size");
  if (begin < 0 || size < 1 || static_cast<uint64_t>(begin) > width ||
      static_cast<uint64_t>(size) > width - static_cast<uint64_t>(begin))
    return invalid("head_linear_c3", "begin is {} and size {}, expected a part of {} lanes", begin, size,
                   width);
  const Dim in = kernel.shape[out_in ? 1 : 0], part(static_cast<uint64_t>(size));
  const bool transpose = bool_attribute(node, "transpose");
  if (x.shape[3] != (transpose ? part : in))
    return invalid("head_linear_c4", "x is {}, expected a last axis of {}", x,
                   to_string(transpose ? part : in));
  TensorType y = x;
  y.shape[3] = transpose ? in : part;
  return std::vector{y};
}

template <class Number>
Outputs<Number> evaluate(const Node& node, std::span<const Value<Number>> inputs) {
  const Value<Number>&x = inputs[0], &kernel = inputs[1];
  const HeadLinearForm form = head_linear_form(node, x.shape[1], kernel.shape);
  const auto entry = [&](size_t i, size_t output) {
    return kernel.data[form.out_in ? output * form.in + i : i * form.heads * form.width + output];
  };
  const size_t from = x.shape[3], to = form.transpose ? form.in : form.size, tokens = x.shape[2];
  Value<Number> y{x.shape, {}};
  y.shape[3] = to;
  for (size_t row = 0; row < rows(x); ++row) {
    const size_t lanes = row / tokens % form.heads * form.width + form.begin;
    for (size_t a = 0; a < to; ++a) {
      double sum = 0;
      for (size_t b = 0; b < from; ++b)
        sum += static_cast<double>(x.data[row * from + b]) *
               (form.transpose ? entry(a, lanes + b) : entry(b, lanes + a));
      y.data.push_back(static_cast<Number>(sum));
    }
  }
  return outputs(std::move(y));
}

}  // namespace

const OpRow kHeadLinear{"head_linear",
                        2,
                        2,
                        {{"layout", AttributeKind::text},
                         {"begin", AttributeKind::integer},
                         {"size", AttributeKind::integer},
                         {"transpose", AttributeKind::boolean}},
                        infer,
                        evaluate<double>,
                        evaluate<float>};

HeadLinearForm head_linear_form(const Node& node, uint64_t heads, const Shape& kernel) {
  const bool out_in = string_attribute(node, "layout") == "out_in";
  return {heads,
          kernel[out_in ? 1 : 0],
          kernel[out_in ? 0 : 1] / heads,
          static_cast<uint64_t>(int_attribute(node, "begin")),
          static_cast<uint64_t>(int_attribute(node, "size")),
          out_in,
          bool_attribute(node, "transpose")};
}

}  // namespace tandem
