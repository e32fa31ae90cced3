// Rows of the ops that cached entries add.

#include "contract/ops/head_linear.h"
#include "lower/tf/lower_ops.h"

namespace tandem {
namespace {

/// Lanes [begin, begin + size) of axis 1.
Tensor slice_second(FunctionBuilder& f, const Tensor& x, uint64_t begin, uint64_t size) {
  Tensor y = x;
  y.type.shape[1] = Dim(size);
  const auto first = static_cast<int32_t>(begin), end = static_cast<int32_t>(begin + size);
  y.ref = f.node("StridedSlice", {x.ref, f.constant({0, first}), f.constant({0, end}), f.constant({1, 1})},
                 {attr("T", x.type.dtype), attr("Index", DType::i32), attr("begin_mask", int64_t{1}),
                  attr("end_mask", int64_t{1})},
                 "output");
  return y;
}

/// One kernel a head: [heads, in, size], or [heads, size, in] where the kernel is stored so.
Tensor kernels_of_heads(FunctionBuilder& f, const Tensor& kernel, const HeadLinearForm& form) {
  if (form.out_in)
    return slice_second(f, f.reshape(kernel, {form.heads, form.width, form.in}), form.begin, form.size);
  const auto begin = static_cast<int32_t>(form.begin), size = static_cast<int32_t>(form.size);
  if (form.width % form.size == 0 && form.begin % form.size == 0) {
    // Parts of one size: one transpose makes all of them, each contiguous, so that no part is copied.
    const Tensor parts = f.once(fmt::format("{} by {}", kernel.ref, size), [&] {
      return f.transpose(f.reshape(kernel, {form.in, form.heads, form.width / form.size, form.size}),
                         {2, 1, 0, 3});
    });
    return f.item(parts, begin / size);
  }
  const Tensor heads = f.reshape(kernel, {form.in, form.heads, form.width});
  return f.transpose(f.slice_last(heads, begin, begin + size), {1, 0, 2});
}

}  // namespace

std::vector<Tensor> lower_append(FunctionBuilder& f, const Node& node, std::span<const TfOperand> inputs,
                                 LowerContext&) {
  const Tensor past = f.use(inputs[0]), added = f.use(inputs[1]);
  const auto axis = static_cast<int32_t>(int_attribute(node, "axis"));
  const std::string& length = string_attribute(node, "length");
  const Dim &before = past.type.shape[static_cast<size_t>(axis)],
            &after = added.type.shape[static_cast<size_t>(axis)];
  // The length is what is here, whatever a mask says: a mask of another length is then refused.
  f.name_axis(length, f.node("AddV2", {f.axis(before), f.axis(after)}, {attr("T", DType::i32)}, "z"));
  Tensor joined = past;
  joined.type.shape[static_cast<size_t>(axis)] = Dim(length);
  joined.ref =
      f.node("ConcatV2", {past.ref, added.ref, f.scalar(axis)},
             {attr("T", past.type.dtype), attr("N", int64_t{2}), attr("Tidx", DType::i32)}, "output");
  return {joined};
}

std::vector<Tensor> lower_last_tokens(FunctionBuilder& f, const Node& node, std::span<const TfOperand> inputs,
                                      LowerContext&) {
  const Tensor x = f.use(inputs[0]);
  const auto count = static_cast<int32_t>(int_attribute(node, "count"));
  Tensor y = x;
  y.type.shape[1] = Dim(static_cast<uint64_t>(count));
  y.ref = f.node("StridedSlice", {x.ref, f.constant({0, -count}), f.constant({0, 0}), f.constant({1, 1})},
                 {attr("T", x.type.dtype), attr("Index", DType::i32), attr("begin_mask", int64_t{1}),
                  attr("end_mask", int64_t{3})},
                 "output");
  return {y};
}

std::vector<Tensor> lower_head_linear(FunctionBuilder& f, const Node& node, std::span<const TfOperand> inputs,
                                      LowerContext&) {
  const Tensor x = f.use(inputs[0]), kernel = f.use(inputs[1]);
  const HeadLinearForm form =
      head_linear_form(node, x.type.shape[1].size, {kernel.type.shape[0].size, kernel.type.shape[1].size});
  const Dim batch = x.type.shape[0], heads = x.type.shape[1], tokens = x.type.shape[2];
  const uint64_t from = x.type.shape[3].size, to = form.transpose ? form.in : form.size;
  // The rows of the batch together, so that each head's kernel is read once.
  const Tensor by_head = f.transpose(x, {1, 0, 2, 3});
  const Tensor rows{f.node("Reshape", {by_head.ref, f.shape({heads, std::nullopt, Dim(from)})},
                           {attr("T", x.type.dtype), attr("Tshape", DType::i32)}, "output"),
                    {x.type.dtype, {heads, Dim("rows"), Dim(from)}}};
  const bool transpose_kernels = form.transpose != form.out_in;
  const Tensor product = f.batch_matmul(rows, kernels_of_heads(f, kernel, form), transpose_kernels);
  return {f.transpose(f.reshape(product, {heads, batch, tokens, Dim(to)}), {1, 0, 2, 3})};
}

}  // namespace tandem
