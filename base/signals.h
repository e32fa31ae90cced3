#pragma once
// Stopping cleanly: the first SIGINT, SIGTERM or SIGHUP asks long work to end, the second ends the process at
// once.

namespace tandem {

/// Called once, by a program's main. A SIGHUP that is ignored (nohup) stays so.
void install_signal_handlers();
/// True once a signal came. Long loops ask between pieces of work, then return an error, so that what they
/// staged is removed.
bool interrupted();
/// What a program ends with after a signal: 130 (SIGINT), 143 (SIGTERM) or 129 (SIGHUP); 0 before any.
int interrupted_exit_code();

}  // namespace tandem
