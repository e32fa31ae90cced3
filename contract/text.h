#pragma once
// The contract's text form: what people read, diff and file bug reports with. print and parse are inverses.

#include "contract/graph.h"

namespace tandem {

std::string print(const Contract& contract);
/// Errors: text_c1 with line number for anything that print does not write. No recursion; at most 64 MiB.
Result<Contract> parse_contract(std::string_view text);

}  // namespace tandem
