#pragma once
// The one list of ops. An op is a header (its manual), a source (constraints and evaluator) and a test, and one line here.

#include <span>

#include "contract/graph.h"
#include "contract/value.h"

namespace tandem {

/// What an attribute must be.
enum class AttributeKind { boolean, integer, number, text, integers, numbers };
struct AttributeRow {
  std::string_view name;
  AttributeKind kind;
  bool required = true;
};

/// One op of the contract.
struct OpRow {
  std::string_view name;                 ///< as in the text form
  size_t min_inputs;                     ///< operands, weights included
  size_t max_inputs;
  std::vector<AttributeRow> attributes;  ///< all that the op knows
  /// The types of the outputs, or the first constraint that does not hold (rule = its label).
  Result<std::vector<TensorType>> (*infer)(const Node& node, std::span<const TensorType> inputs);
  /// The outputs, computed slowly and readably. Inputs are checked. Templated on the arithmetic: see value.h.
  std::vector<Value<double>> (*evaluate_f64)(const Node& node, std::span<const Value<double>> inputs);
  std::vector<Value<float>> (*evaluate_f32)(const Node& node, std::span<const Value<float>> inputs);
};

std::span<const OpRow> ops();
const OpRow* find_op(std::string_view name);

}  // namespace tandem
