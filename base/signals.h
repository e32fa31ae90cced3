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

/// For a program that talks with a person: from now on SIGINT ends a piece of work and not the program. It
/// does not count as interrupted(), and only the fifth within one piece ends the process.
void stay_on_interrupt();
/// Whether SIGINT came since this was last asked, once stay_on_interrupt() was called.
bool take_interrupt();

}  // namespace tandem
