#include "base/signals.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

namespace tandem {
namespace {

constexpr int kPatience = 5;

std::atomic<int> first_signal{0};
std::atomic<bool> staying{false};
std::atomic<int> interrupts{0};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free,
              "touched in a signal handler");

void on_signal(int signal) {
  if (signal == SIGINT && staying) {
    if (++interrupts >= kPatience) ::_exit(128 + signal);
    return;
  }
  int none = 0;
  if (!first_signal.compare_exchange_strong(none, signal)) ::_exit(128 + signal);
}

}  // namespace

void install_signal_handlers() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;  // libraries below us need not know about signals
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  struct sigaction hangup {};
  if (::sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
    ::sigaction(SIGHUP, &action, nullptr);
}

bool interrupted() { return first_signal != 0; }
int interrupted_exit_code() { return interrupted() ? 128 + first_signal : 0; }

void stay_on_interrupt() { staying = true; }
bool take_interrupt() { return interrupts.exchange(0) > 0; }

}  // namespace tandem
