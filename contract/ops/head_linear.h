#pragma once

#include "contract/ops/registry.h"

namespace tandem {

/// A product with one kernel a head, the heads' kernels being parts of one dense kernel. With K[i, h, j] the
/// kernel's entry that leads from its input i to output j of head h (h * width + j in storage):
///
///   y[b, h, t, j] = sum_i(x[b, h, t, i] * K[i, h, begin + j])     for j < size     where transpose is false
///   y[b, h, t, i] = sum_j(x[b, h, t, j] * K[i, h, begin + j])     over j < size    where it is true
///
/// With it latent attention reads its compressed cache: kv_b_proj goes into the query (transposed), and onto
/// what attention gives (not transposed), in place of making keys and values of every cached token.
///
/// Shapes  x: [batch, heads, tokens, in], transposed [.., size]    y: [batch, heads, tokens, size],
/// transposed
///         [.., in]    kernel: [in, heads * width], or [heads * width, in] where layout is "out_in"
/// Types   one float type for all three
/// Errors  head_linear_c1  x is not float of rank 4 with a fixed number of heads
///         head_linear_c2  kernel is not of x's type and rank 2, or its outputs are no multiple of the heads
///         head_linear_c3  begin is negative, size is below 1, or begin + size is beyond width
///         head_linear_c4  x's last axis is not what the kernel leads from
///         head_linear_c5  layout is neither "in_out" nor "out_in"
/// Source  arithmetic; "absorb" in DeepSeek-V3's inference/model.py (MLA.forward)
extern const OpRow kHeadLinear;

/// The sizes of a checked node: kernel [in, heads, width].
struct HeadLinearForm {
  uint64_t heads, in, width, begin, size;
  bool out_in, transpose;
};
HeadLinearForm head_linear_form(const Node& node, uint64_t heads, const Shape& kernel);

}  // namespace tandem
