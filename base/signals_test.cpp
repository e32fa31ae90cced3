#include "base/signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tandem {
namespace {

// The exit code of a child that runs `body` with the handlers in place.
template <class Body>
int exit_of(const Body& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    install_signal_handlers();
    ::_exit(body());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Signals, NothingHappened) {
  EXPECT_EQ(exit_of([] { return interrupted() ? 1 : interrupted_exit_code(); }), 0);
}

TEST(Signals, FirstOneIsNoted) {
  const auto noted = [](int signal) {
    return exit_of([&] {
      ::raise(signal);
      return interrupted() ? interrupted_exit_code() : 1;
    });
  };
  EXPECT_EQ(noted(SIGINT), 130);
  EXPECT_EQ(noted(SIGTERM), 143);
  ::signal(SIGHUP, SIG_DFL);  // whatever the tests run under
  EXPECT_EQ(noted(SIGHUP), 129);
}

TEST(Signals, AHangupThatIsIgnoredStaysIgnored) {
  EXPECT_EQ(exit_of([] {
              ::signal(SIGHUP, SIG_IGN);
              install_signal_handlers();
              ::raise(SIGHUP);
              return interrupted() ? 1 : 0;
            }),
            0);
}

TEST(Signals, AProgramThatStaysIsToldAndGoesOn) {
  EXPECT_EQ(exit_of([] {
              stay_on_interrupt();
              if (take_interrupt()) return 1;
              for (int i = 0; i < 3; ++i) ::raise(SIGINT);
              if (!take_interrupt() || take_interrupt() || interrupted()) return 2;
              ::raise(SIGINT);
              ::raise(SIGTERM);
              return take_interrupt() && interrupted() ? interrupted_exit_code() : 3;
            }),
            143);
}

TEST(Signals, TheFifthInOnePieceOfWorkEndsItAllTheSame) {
  EXPECT_EQ(exit_of([] {
              stay_on_interrupt();
              for (int i = 0; i < 5; ++i) ::raise(SIGINT);
              return 1;
            }),
            130);
}

TEST(Signals, SecondOneEndsTheProcess) {
  EXPECT_EQ(exit_of([] {
              ::raise(SIGINT);
              ::raise(SIGTERM);
              return 1;
            }),
            143);
}

}  // namespace
}  // namespace tandem
