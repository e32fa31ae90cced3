#pragma once
// Stopping cleanly: the first SIGINT or SIGTERM asks long work to end, the second ends the process at once.

namespace tandem {

/// Called once, by a program's main.
void install_signal_handlers();
/// True once a signal came. Long loops ask between pieces of work, then return an error, so that what they
/// staged is removed.
bool interrupted();
/// What a program ends with after a signal: 130 (SIGINT) or 143 (SIGTERM); 0 before any.
int interrupted_exit_code();

}  // namespace tandem
