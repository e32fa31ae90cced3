#include "lower/tf/lower_ops.h"

#include <array>

#include "lower/tf/lower_tf.h"

namespace tandem {
namespace {

constexpr auto kRows = std::to_array<LowerRow>({
    {"positions", lower_positions},
    {"fill_like", lower_fill_like},
    {"select", lower_select},
    {"embedding", lower_embedding},
    {"linear", lower_linear},
    {"rms_norm", lower_rms_norm},
    {"add", lower_add},
    {"activation_gate", lower_activation_gate},
    {"split_heads", lower_split_heads},
    {"merge_heads", lower_merge_heads},
    {"repeat_heads", lower_repeat_heads},
    {"gather_heads", lower_gather_heads},
    {"roll", lower_roll},
    {"slice", lower_slice},
    {"concat", lower_concat},
    {"rotary_table", lower_rotary_table},
    {"rotary", lower_rotary},
    {"attention", lower_attention},
    {"route", lower_route},
    {"experts", lower_experts},
    {"cast", lower_cast},
    {"append", lower_append},
    {"last_tokens", lower_last_tokens},
    {"head_linear", lower_head_linear},
    {"cached_attention", lower_cached_attention},
});

}  // namespace

std::span<const LowerRow> lower_rows() { return kRows; }

LowerFunction find_lowering(std::string_view op) {
  for (const LowerRow& row : kRows)
    if (row.op == op) return row.lower;
  return nullptr;
}

std::vector<std::string_view> tensorflow_ops() {
  std::vector<std::string_view> names;
  for (const LowerRow& row : kRows) names.push_back(row.op);
  return names;
}

}  // namespace tandem
