#pragma once
// What a comparison with a dump needs besides its engine: its probes, and whether it is of the same model.

#include "engines/dump_file.h"
#include "verify/probes.h"

namespace tandem {

/// A recorded call as a probe.
Probe probe_of(const DumpProbe& recorded);

/// The probes of a comparison in which a dump takes part: those of the dump; of two dumps, those that both
/// have, under the left one's names. One of the two may be null. `vocab_size` is that of a side that runs
/// (0: none does). Errors: verify_c10 (invalid) two dumps without a common probe; an id at or above
/// vocab_size.
Result<std::vector<Probe>> probes_of_dumps(const DumpFile* left, const DumpFile* right, uint64_t vocab_size);

/// The probes that a level of taps can be measured on: those with a tap in every dump.
std::vector<Probe> with_taps(const std::vector<Probe>& probes, const DumpFile* left, const DumpFile* right);

/// Keys of two configs whose values differ, a line each; keys that change nothing about what is computed are
/// left out. Nothing where one of them is null.
std::vector<std::string> config_differences(const Json& left, const Json& right);

}  // namespace tandem
