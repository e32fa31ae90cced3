#pragma once
// What signatures that use other signatures are written with: calls by the names of inputs and outputs.

#include <map>

#include "formats/saved_model/saved_model.h"
#include "lower/tf/function_builder.h"

namespace tandem {

inline const Dim kBatch("batch");

/// What such a signature is built from: functions of the library, by what they compute.
struct StepFunctions {
  const SavedFunction& prefill;
  const SavedFunction& decode;
  const std::vector<SavedVariable>& variables;
};

using Handles = std::map<size_t, std::string>;  ///< of variables, by their index
using NamedTensors = std::map<std::string, Tensor>;

/// What some functions capture, each once.
std::vector<size_t> all_captures(const std::vector<const SavedFunction*>& functions);
/// The loop of the functions STEM_condition and STEM_body, which take the values and then the handles: the
/// values after it.
std::vector<Tensor> while_loop(FunctionBuilder& f, const std::string& stem, std::vector<Tensor> values,
                               const std::vector<size_t>& captures, const Handles& handles);

/// An argument as it is declared; unknown axes get names that say which they are.
Tensor argument(FunctionBuilder& f, const TensorSpec& spec);
/// The handles as arguments.
Handles capture(FunctionBuilder& f, const std::vector<size_t>& captures,
                const std::vector<SavedVariable>& variables);
/// function(inputs...), its outputs by name.
NamedTensors call(FunctionBuilder& f, const SavedFunction& function, const NamedTensors& inputs,
                  const Handles& handles);

Tensor as_i32(const std::string& ref, std::vector<Dim> shape);
Tensor as_bool(const std::string& ref, std::vector<Dim> shape);
/// Greater, Less, Equal, ...: x's shape.
Tensor compare(FunctionBuilder& f, const std::string& op, const Tensor& x, const Tensor& y);
/// LogicalAnd, LogicalOr: x's shape.
Tensor logical(FunctionBuilder& f, const std::string& op, const Tensor& x, const Tensor& y);
/// no's type.
Tensor select(FunctionBuilder& f, const Tensor& condition, const Tensor& yes, const Tensor& no);
/// All, Any, Max, Sum of the last axis, which goes, or stays with size 1.
Tensor reduced(FunctionBuilder& f, const std::string& reduction, const Tensor& x, bool keep_axis = false);
/// LogicalNot.
Tensor negated(FunctionBuilder& f, const Tensor& x);
/// i32 x [batch, n] with one more column, [batch, axis].
Tensor with_column(FunctionBuilder& f, const Tensor& x, const Tensor& column, const Dim& axis);
/// i32[batch, axis] of no columns.
Tensor no_columns(FunctionBuilder& f, const Dim& axis);
/// Columns from begin up to end (an i32 scalar) of [batch, n].
Tensor columns(FunctionBuilder& f, const Tensor& x, int32_t begin, const std::string& end);

}  // namespace tandem
