#pragma once
// The reference evaluator: runs an entry of a checked contract, slowly and readably, in float64 or float32.

#include <functional>

#include "contract/graph.h"
#include "contract/value.h"

namespace tandem {

template <class Number>
using Values = std::map<std::string, Value<Number>, std::less<>>;

/// Where the evaluator takes a weight of the contract from (by WeightEntry name).
template <class Number>
using WeightLookup = std::function<Result<Value<Number>>(const std::string& name)>;

/// Runs `entry`. The result holds the entry's outputs by name and, when with_taps, every tap by its full
/// name. Inputs that the entry does not declare are ignored. f64 rounds nothing, whatever the contract
/// computes in, so it shows what the other precisions only approach. Errors: evaluate_c1 an input is missing
/// or of another shape; evaluate_c2 the lookup's weight has another shape; evaluate_c3 f32 evaluation of a
/// contract that computes in another type (unsupported); whatever the lookup returns; and the errors of ops
/// that only values show (an id beyond the vocabulary).
template <class Number>
Result<Values<Number>> evaluate(const Contract& contract, const Block& entry, const Values<Number>& inputs,
                                const WeightLookup<Number>& weights, bool with_taps = false);

extern template Result<Values<double>> evaluate(const Contract&, const Block&, const Values<double>&,
                                                const WeightLookup<double>&, bool);
extern template Result<Values<float>> evaluate(const Contract&, const Block&, const Values<float>&,
                                               const WeightLookup<float>&, bool);

}  // namespace tandem
