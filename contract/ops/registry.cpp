#include "contract/ops/registry.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "contract/ops/activation_gate.h"
#include "contract/ops/add.h"
#include "contract/ops/append.h"
#include "contract/ops/attention.h"
#include "contract/ops/cached_attention.h"
#include "contract/ops/cast.h"
#include "contract/ops/concat.h"
#include "contract/ops/embedding.h"
#include "contract/ops/experts.h"
#include "contract/ops/fill_like.h"
#include "contract/ops/gather_heads.h"
#include "contract/ops/head_linear.h"
#include "contract/ops/last_tokens.h"
#include "contract/ops/linear.h"
#include "contract/ops/merge_heads.h"
#include "contract/ops/positions.h"
#include "contract/ops/repeat_heads.h"
#include "contract/ops/rms_norm.h"
#include "contract/ops/roll.h"
#include "contract/ops/rotary.h"
#include "contract/ops/rotary_table.h"
#include "contract/ops/route.h"
#include "contract/ops/select.h"
#include "contract/ops/slice.h"
#include "contract/ops/split_heads.h"

namespace tandem {
namespace {

std::string_view kind_name(AttributeKind kind) {
  switch (kind) {
    case AttributeKind::boolean:
      return "true or false";
    case AttributeKind::integer:
      return "an integer";
    case AttributeKind::number:
      return "a finite number";
    case AttributeKind::text:
      return "a text";
    case AttributeKind::integers:
      return "a list of integers";
    case AttributeKind::numbers:
      return "a list of finite numbers";
  }
  return "";
}

bool is_of(const Attribute& attribute, AttributeKind kind) {
  const auto finite = [](double number) { return std::isfinite(number); };
  switch (kind) {
    case AttributeKind::boolean:
      return std::holds_alternative<bool>(attribute);
    case AttributeKind::integer:
      return std::holds_alternative<int64_t>(attribute);
    case AttributeKind::number:
      if (const double* number = std::get_if<double>(&attribute)) return finite(*number);
      return std::holds_alternative<int64_t>(attribute);
    case AttributeKind::text:
      return std::holds_alternative<std::string>(attribute);
    case AttributeKind::integers:
      return std::holds_alternative<std::vector<int64_t>>(attribute);
    case AttributeKind::numbers: {
      const auto* numbers = std::get_if<std::vector<double>>(&attribute);
      return numbers && std::ranges::all_of(*numbers, finite);
    }
  }
  return false;
}

Status check_attributes(const OpRow& op, const Node& node) {
  for (const AttributeRow& row : op.attributes) {
    const Attribute* attribute = find_attribute(node, row.name);
    if (!attribute && row.required) return invalid("op_c3", "{} needs the attribute {}", op.name, row.name);
    if (attribute && !is_of(*attribute, row.kind))
      return invalid("op_c3", "{}: attribute {} must be {}", op.name, row.name, kind_name(row.kind));
  }
  for (const auto& [name, value] : node.attributes)
    if (std::ranges::find(op.attributes, name, &AttributeRow::name) == op.attributes.end())
      return invalid("op_c3", "{} has no attribute {}", op.name, name);
  return {};
}

}  // namespace

std::span<const OpRow> ops() {
  static const std::array rows{
      kActivationGate, kAdd,         kAppend,     kAttention, kCachedAttention,
      kCast,           kConcat,      kEmbedding,  kExperts,   kFillLike,
      kGatherHeads,    kHeadLinear,  kLastTokens, kLinear,    kMergeHeads,
      kPositions,      kRepeatHeads, kRmsNorm,    kRoll,      kRotary,
      kRotaryTable,    kRoute,       kSelect,     kSlice,     kSplitHeads,
  };
  return rows;
}

const OpRow* find_op(std::string_view name) {
  const auto found = std::ranges::find(ops(), name, &OpRow::name);
  return found == ops().end() ? nullptr : &*found;
}

Result<std::vector<TensorType>> infer_types_of(const Node& node, std::span<const TensorType> inputs) {
  const OpRow* op = find_op(node.op);
  if (!op) return unsupported("op_c1", "there is no op \"{}\"", node.op);
  if (inputs.size() < op->min_inputs || inputs.size() > op->max_inputs)
    return invalid("op_c2", "{} takes {} operands{}, found {}", op->name, op->min_inputs,
                   op->max_inputs > op->min_inputs ? " or more" : "", inputs.size());
  TANDEM_CHECK(check_attributes(*op, node));
  TANDEM_TRY(auto types, op->infer(node, inputs));
  if (types.size() != node.outputs.size())
    return invalid("op_c4", "{} has {} outputs, the node names {}", op->name, types.size(),
                   node.outputs.size());
  return types;
}

}  // namespace tandem
