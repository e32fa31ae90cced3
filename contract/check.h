#pragma once
// The checker: every rule that a contract must keep, and the types of all its values.

#include <map>

#include "contract/graph.h"

namespace tandem {

/// The type of every value of one block or entry, by value name.
using ValueTypes = std::map<std::string, TensorType, std::less<>>;

/// Checks the whole contract: names assigned once and before use, ops known, attributes known and typed, weights bound
/// with the right shapes, block results, tap names unique, and each op's own constraints. All problems are reported, one
/// a line, in one Error (kind invalid, rule = label of the first).
Status check(const Contract& contract);

/// The types of one block's values. The block must belong to a checked contract.
Result<ValueTypes> infer_types(const Contract& contract, const Block& block);

/// Every tap of an entry in order of execution: full name (call prefix + "." + tap) and type.
Result<std::vector<Parameter>> taps(const Contract& contract, const Block& entry);

}  // namespace tandem
