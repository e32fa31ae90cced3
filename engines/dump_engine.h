#pragma once
// The engine that answers from a dump, in our own process: for a side that is on another machine.

#include "engines/dump_file.h"

namespace tandem {

/// An engine over a dump. It answers run() for the recorded probes alone:
///
///   "logits"  of logits, experts and router_margin those asked for; without a list all that were recorded
///   "taps"    of the taps (and logits) asked for those that were recorded; without a list all
///
/// Errors of run(): dump_c9 (invalid) no probe has these inputs; dump_c10 (unsupported) an output that was
/// not recorded (of "taps" it is left out), or another entry. values(), edit() and encode() are
/// unsupported, as of any engine that has none.
std::unique_ptr<Engine> dump_engine(std::shared_ptr<const DumpFile> dump);

}  // namespace tandem
