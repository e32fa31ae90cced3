#pragma once
// Inputs that a coverage-guided fuzzer found, one a line in Base64: fuzz/corpus/NAME.base64.
// tools/fuzz.py writes it; a fuzzer without one has its seeds alone.

#include <string>
#include <vector>

namespace tandem::fuzz {

/// This program's corpus. A line that is no Base64 ends the program: the file is our own.
std::vector<std::string> corpus();

}  // namespace tandem::fuzz
