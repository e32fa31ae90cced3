#pragma once
// All that is wrong with a checkpoint, as lines and as one error.

#include "rules/rules.h"

namespace tandem {

/// Every difference of a match, a line each: "missing: model.norm.weight".
std::vector<std::string> problems(const Match& match);

/// One error for all problems: the count, then a line each (40 at most, and how many more).
Error all_problems(std::string rule, std::string_view what, const std::vector<std::string>& problems);

}  // namespace tandem
