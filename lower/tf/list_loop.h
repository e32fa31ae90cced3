#pragma once
// A While loop that makes one item a turn.

#include <functional>

#include "lower/tf/lower_ops.h"

namespace tandem {

/// What a loop reads and does not change: values by the name that they have inside it, and weights as
/// handles.
struct LoopInputs {
  std::vector<std::pair<std::string, Tensor>> values;
  std::vector<std::pair<std::string, TfOperand>> weights;
};

/// The item of turn "counter" (an i32 scalar of that name), from the inputs in their order.
using LoopBody = std::function<Tensor(FunctionBuilder& f, const std::vector<Tensor>& values,
                                      const std::vector<TfOperand>& weights)>;

/// The items of turns 0 to count - 1, [count, item...]. `count` is an i32 scalar that f knows as `axis`;
/// `item` the type of an item; `stem` names the two functions.
Tensor list_loop(FunctionBuilder& f, LowerContext& context, const std::string& stem, const Dim& axis,
                 const TensorType& item, const LoopInputs& inputs, const LoopBody& body);

}  // namespace tandem
