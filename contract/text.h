#pragma once
// The contract's text form: what people read, diff and file bug reports with. print and parse are inverses
// for contracts whose names are names (contract/graph.h shows the form).
//
// Integers have no point and no exponent, other numbers do (1.0, 1e-06); texts are in quotes, with \", \\ and
// \xNN for control characters; lists are in brackets, and [.] is the empty list of numbers that are not
// integers.

#include "contract/graph.h"

namespace tandem {

std::string print(const Contract& contract);
/// Errors: text_c1 with line number for anything that print does not write, spaces and line breaks aside.
/// No recursion; at most 64 MiB.
Result<Contract> parse_contract(std::string_view text);

}  // namespace tandem
