#pragma once
// What a loop in the graph leaves open: how the next token is chosen, and what ends a row.

#include <memory>

#include "lower/tf/step_functions.h"

namespace tandem {

/// What ends a row, and what it holds past its end.
struct Ends {
  Tensor ids;   ///< i32[batch, n] or [n]; ids below 0 are none
  Tensor fill;  ///< i32[batch] or a scalar
};

/// Writes the nodes of a loop that differ from one way of choosing to another. `values` is what the turns
/// need beside logits; it is part of the loop's state, so names must not be those of generate.cpp.
class Chooser {
 public:
  virtual ~Chooser() = default;
  /// Inputs of the signature that this way of choosing adds.
  virtual std::vector<TensorSpec> inputs() const { return {}; }
  /// The values before the first turn. `inputs`: all of the signature's.
  virtual NamedTensors begin(FunctionBuilder&, const NamedTensors& /*inputs*/,
                             const Tensor& /*logits*/) const {
    return {};
  }
  virtual Ends ends(FunctionBuilder& f, const NamedTensors& values) const = 0;
  /// i32[batch], of logits f32[batch, 1, vocab]. `step` is an i32 scalar: how many tokens were made.
  virtual Tensor choose(FunctionBuilder& f, const NamedTensors& values, const Tensor& logits,
                        const std::string& step) const = 0;
  /// The values after each row was given a token.
  virtual NamedTensors after(FunctionBuilder&, NamedTensors values, const Tensor& /*tokens*/) const {
    return values;
  }
};

/// The most likely token, the lowest id of equals. Rows end with any of the ids, and hold the first one past
/// their end, or 0.
std::unique_ptr<Chooser> greedy_chooser(std::vector<int64_t> eos_token_ids);

/// The rules and numbers of docs/sampling.md; inputs eos_token_ids i32[batch, n], min_p, repetition_penalty,
/// temperature and top_p f64[batch], top_k i32[batch], seed i64[batch] (its 64 bits). Helper functions are
/// appended to `library`, under names that begin with `stem`. Errors, when it is run: InvalidArgument for
/// values out of their ranges, and logits that hold NaN or nothing finite.
std::unique_ptr<Chooser> drawing_chooser(std::vector<tensorflow::FunctionDef>& library, std::string stem);

}  // namespace tandem
