#pragma once
// The checker: every rule that a contract must keep, and the types of all its values.

#include <map>

#include "contract/graph.h"

namespace tandem {

/// The type of every value of one block or entry, by value name.
using ValueTypes = std::map<std::string, TensorType, std::less<>>;

/// Checks the whole contract: names assigned once and before use, ops known, attributes known and typed,
/// weights bound with the right shapes, block results, tap names unique, and each op's own constraints. All
/// problems are reported, one a line, in one Error (kind invalid, rule = label of the first):
///   check_c1   compute is no arithmetic float type
///   check_c2   a weight's name is malformed or there twice, or its size has no 64 bits
///   check_c3   a block's or entry's name is malformed or there twice
///   check_c4   a parameter is malformed or declared twice, a weight parameter has an axis without a size, an
///   entry declares weights check_c5   an operand is used before it is assigned, or is not a weight check_c6
///   an output is malformed or assigned twice, or a node has none check_c7   a call's attributes are not the
///   texts block and at check_c8   a call in a block, of no block, with inputs of other types, or with
///   another number of results check_c9   a call binds a weight that is not there or has another shape
///   check_c10  a result is no value of the block, or is there twice, or there is none
///   check_c11  two taps or outputs of an entry have one name
/// and op_c1 to op_c4 (contract/ops/registry.h), and the labels of the ops.
Status check(const Contract& contract);

/// The types of one block's values. The block must belong to a checked contract.
Result<ValueTypes> infer_types(const Contract& contract, const Block& block);

/// Every tap of an entry in order of execution: full name (call prefix + "." + tap) and type.
Result<std::vector<Parameter>> taps(const Contract& contract, const Block& entry);

}  // namespace tandem
