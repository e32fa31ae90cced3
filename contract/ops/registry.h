#pragma once
// The one list of ops. An op is a header (its manual), a source (constraints and evaluator) and a test, and
// one line in registry.cpp.

#include <span>

#include "contract/graph.h"
#include "contract/value.h"

namespace tandem {

/// What an attribute must be. A number may also be written as an integer; numbers are finite.
enum class AttributeKind { boolean, integer, number, text, integers, numbers };
struct AttributeRow {
  std::string_view name;
  AttributeKind kind;
  bool required = true;
};

template <class Number>
using Outputs = Result<std::vector<Value<Number>>>;

/// One op of the contract.
struct OpRow {
  std::string_view name;  ///< as in the text form
  size_t min_inputs;      ///< operands, weights included
  size_t max_inputs;
  std::vector<AttributeRow> attributes;  ///< all that the op knows
  /// The types of the outputs, or the first constraint that does not hold (rule = its label). Operand count
  /// and attributes have been checked: call it through infer_types_of.
  Result<std::vector<TensorType>> (*infer)(const Node& node, std::span<const TensorType> inputs);
  /// The outputs, computed slowly and readably. Types have been checked; what only values show (an id beyond
  /// the vocabulary) is an error. In f64 nothing is rounded, in f32 each step rounds as PyTorch does, but
  /// sums are accumulated in double and rounded once.
  Outputs<double> (*evaluate_f64)(const Node& node, std::span<const Value<double>> inputs);
  Outputs<float> (*evaluate_f32)(const Node& node, std::span<const Value<float>> inputs);
};

std::span<const OpRow> ops();
const OpRow* find_op(std::string_view name);

/// The types of a node's outputs.
/// Errors: op_c1 no such op; op_c2 too few or too many operands; op_c3 an attribute is missing, unknown or of
/// the wrong kind; op_c4 the node names more or fewer outputs than the op has; then the op's own.
Result<std::vector<TensorType>> infer_types_of(const Node& node, std::span<const TensorType> inputs);

}  // namespace tandem
