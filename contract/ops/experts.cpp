#include "contract/ops/experts.h"

#include "contract/ops/activation.h"
#include "contract/ops/op.h"

namespace tandem {
namespace {

Result<std::vector<TensorType>> infer(const Node& node, std::span<const TensorType> inputs) {
  const TensorType &x = inputs[0], &chosen = inputs[1], &weights = inputs[2];
  TANDEM_TRY(const bool out_in, is_out_in(node, "experts_c7"));
  TANDEM_CHECK(check_activation(node, "experts_c9"));
  if (!is_float_of_rank(x, 3))
    return invalid("experts_c1", "x is {}, expected a float type and [batch, tokens, hidden]", x);
  if (chosen.rank() != 3 || chosen != i32({x.shape[0], x.shape[1], chosen.shape[2]}))
    return invalid("experts_c2", "chosen is {}, expected i32[batch, tokens, top_k] with the axes of x, {}",
                   chosen, x);
  if (weights != TensorType{DType::f32, chosen.shape})
    return invalid("experts_c3", "weights is {}, expected {}", weights, TensorType{DType::f32, chosen.shape});
  const int64_t chunks = int_attribute(node, "chunks");
  const auto kernels = inputs.subspan(3);
  if (chunks < 1 || kernels.size() % 3 != 0 || static_cast<uint64_t>(chunks) != kernels.size() / 3)
    return invalid("experts_c4", "chunks is {}, and there are {} kernels, expected three a chunk", chunks,
                   kernels.size());

  const Dim hidden = x.shape[2], width = kernels[0].rank() == 3 ? kernels[0].shape[out_in ? 1 : 2] : Dim();
  for (size_t i = 0; i < kernels.size(); ++i) {
    const TensorType& first = kernels[i % chunks];  // the gates of this chunk
    const bool down = i / chunks == 2;
    const Dim count = first.rank() == 3 ? first.shape[0] : Dim();
    TensorType expected = kernel_type(x.dtype, down ? width : hidden, down ? hidden : width, out_in);
    expected.shape.insert(expected.shape.begin(), count);
    if (kernels[i] != expected || !count.fixed() || count.size == 0)
      return invalid(down ? "experts_c6" : "experts_c5", "kernel {} is {}, expected {}", i, kernels[i],
                     expected);
  }
  return std::vector{x};
}

/// A kernel of one expert out of the stacks that follow `first`.
template <class Number>
std::span<const Number> kernel_of(std::span<const Value<Number>> stacks, size_t expert) {
  size_t chunk = 0;
  while (expert >= stacks[chunk].shape[0]) expert -= stacks[chunk++].shape[0];
  const size_t size = stacks[chunk].shape[1] * stacks[chunk].shape[2];
  return std::span(stacks[chunk].data).subspan(expert * size, size);
}

template <class Number>
Outputs<Number> evaluate(const Node& node, std::span<const Value<Number>> inputs) {
  const Value<Number>&x = inputs[0], &chosen = inputs[1], &weights = inputs[2];
  const bool out_in = string_attribute(node, "layout") == "out_in";
  const Activation& act = *find_activation(string_attribute(node, "hidden_act"));
  const size_t chunks = int_attribute(node, "chunks"), hidden = x.shape[2], top_k = chosen.shape[2];
  const auto gates = inputs.subspan(3, chunks), ups = inputs.subspan(3 + chunks, chunks);
  const auto downs = inputs.subspan(3 + 2 * chunks, chunks);
  const size_t width = gates[0].shape[out_in ? 1 : 2];
  size_t experts = 0;
  for (const auto& gate : gates) experts += gate.shape[0];

  Value<Number> y{x.shape, {}};
  y.data.reserve(x.data.size());
  for (size_t row = 0; row < rows(x); ++row) {
    const auto token = std::span(x.data).subspan(row * hidden, hidden);
    std::vector<double> sums(hidden, 0.0);
    for (size_t i = 0; i < top_k; ++i) {
      const Number number = chosen.data[row * top_k + i];
      if (!(number >= 0 && number < static_cast<Number>(experts)))
        return invalid("experts_c8", "chosen expert {} is not one of {}", number, experts);
      const size_t expert = static_cast<size_t>(number);
      const auto gate = row_times_kernel(token, kernel_of(gates, expert), width, out_in);
      const auto up = row_times_kernel(token, kernel_of(ups, expert), width, out_in);
      std::vector<Number> inner(width);
      for (size_t j = 0; j < width; ++j)
        inner[j] = act(static_cast<Number>(gate[j])) * static_cast<Number>(up[j]);
      const auto down =
          row_times_kernel(std::span<const Number>(inner), kernel_of(downs, expert), hidden, out_in);
      for (size_t j = 0; j < hidden; ++j)
        sums[j] += static_cast<Number>(down[j]) * weights.data[row * top_k + i];
    }
    y.data.insert(y.data.end(), sums.begin(), sums.end());
  }
  return outputs(std::move(y));
}

}  // namespace

const OpRow kExperts{"experts",
                     6,
                     SIZE_MAX,
                     {{"layout", AttributeKind::text},
                      {"chunks", AttributeKind::integer},
                      {"hidden_act", AttributeKind::text}},
                     infer,
                     evaluate<double>,
                     evaluate<float>};

}  // namespace tandem
