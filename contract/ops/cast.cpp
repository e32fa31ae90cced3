#include "contract/ops/cast.h"

#include "contract/ops/op.h"

namespace tandem {
namespace {

Result<std::vector<TensorType>> infer(const Node& node, std::span<const TensorType> inputs) {
  const std::string& word = string_attribute(node, "dtype");
  const auto dtype = dtype_named(word);
  if (!dtype) return invalid("cast_op_c1", "there is no dtype \"{}\"", word);
  if (is_float(inputs[0].dtype) && !is_float(*dtype))
    return invalid("cast_op_c2", "{} to {} would drop fractions; no op here does that", inputs[0], *dtype);
  return std::vector{TensorType{*dtype, inputs[0].shape}};
}

template <class Number>
Outputs<Number> evaluate(const Node& node, std::span<const Value<Number>> inputs) {
  const DType dtype = *dtype_named(string_attribute(node, "dtype"));
  Value<Number> y = inputs[0];
  const bool always = find_attribute(node, "always") && bool_attribute(node, "always");
  for (Number& number : y.data) number = always ? always_round_to(dtype, number) : round_to(dtype, number);
  return outputs(std::move(y));
}

}  // namespace

const OpRow kCast{"cast",
                  1,
                  1,
                  {{"dtype", AttributeKind::text}, {"always", AttributeKind::boolean, false}},
                  infer,
                  evaluate<double>,
                  evaluate<float>};

}  // namespace tandem
