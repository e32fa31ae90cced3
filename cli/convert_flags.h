#pragma once
// Flags that convert and plan share.

#include "cli/command.h"
#include "convert/convert.h"

namespace tandem {

struct ConvertFlags {
  std::string source, destination;
  std::string to;
  std::string dtype = "keep", compute = "float32", matmul_precision = "float32";
  std::string max_shard_size, memory;
  std::string layout = "tensorflow", place = "hard-link";
  std::vector<std::string> accepted_keys;
  ConvertOptions options;
};

/// SRC, DST and the options of a conversion.
void add_convert_flags(CLI::App& command, ConvertFlags& flags, bool needs_destination);
/// --threads.
void add_threads(CLI::App& command, unsigned& threads);
Result<ConvertOptions> options_of(const ConvertFlags& flags);

}  // namespace tandem
