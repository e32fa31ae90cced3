#pragma once
// tandem bench convert.

#include "cli/command.h"

namespace tandem {

void add_bench_convert(CLI::App& bench, Session& session);

}  // namespace tandem
