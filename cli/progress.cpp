#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "base/signals.h"
#include "cli/command.h"

namespace tandem {

Progress::Progress(std::string what) : what_(std::move(what)), terminal_(isatty(STDERR_FILENO)) {}

Progress::~Progress() {
  if (percent_ >= 0) std::fputs("\r\x1b[K", stderr);  // does not throw where stderr is gone
}

void Progress::show(uint64_t done, uint64_t total) {
  if (!terminal_ || total == 0) return;
  const int percent = static_cast<int>(100.0 * static_cast<double>(done) / static_cast<double>(total));
  if (percent == percent_) return;
  percent_ = percent;
  std::fputs(fmt::format("\r{}: {} %", what_, percent).c_str(), stderr);
  std::fflush(stderr);
}

Status show_step(std::string_view step) {
  if (interrupted()) return unavailable("", "stopped by a signal");
  if (isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r\033[K{}", for_terminal(step));
  return {};
}

void clear_step() {
  if (isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r\033[K");
}

}  // namespace tandem
