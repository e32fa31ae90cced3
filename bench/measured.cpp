#include "bench/measured.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>

#include "base/file.h"

namespace tandem {
namespace {

/// What a child tells: a number, the kind of an error and its text, if there is one.
void tell(int pipe, double seconds, const Error* error) {
  std::string text =
      fmt::format("{} {} {}", seconds, error ? static_cast<int>(error->kind) : -1, error ? error->text : "");
  static_cast<void>(!::write(pipe, text.data(), text.size()));
}

std::string all_of(int pipe) {
  std::string text;
  char buffer[4096];
  ssize_t got;
  while ((got = ::read(pipe, buffer, sizeof buffer)) > 0 || (got < 0 && errno == EINTR))
    if (got > 0) text.append(buffer, static_cast<size_t>(got));
  return text;
}

}  // namespace

Result<Measured> measure_in_child(const std::function<Result<double>()>& work) {
  int ends[2];
  if (::pipe(ends) != 0) return unavailable("", "no pipe: {}", std::strerror(errno));
  const pid_t child = ::fork();
  if (child < 0) return unavailable("", "no process: {}", std::strerror(errno));
  if (child == 0) {
    ::close(ends[0]);
    const auto begin = std::chrono::steady_clock::now();
    const auto done = work();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    tell(ends[1], done.ok() && done.value() > 0 ? done.value() : seconds,
         done.ok() ? nullptr : &done.error());
    ::_exit(0);
  }
  ::close(ends[1]);
  const std::string text = all_of(ends[0]);
  ::close(ends[0]);
  int status = 0;
  rusage usage{};
  while (::wait4(child, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  Measured measured;
  int kind = 0, read = 0;
  if (!WIFEXITED(status) || std::sscanf(text.c_str(), "%lf %d %n", &measured.seconds, &kind, &read) != 2)
    return unavailable("", "the measured process died ({})",
                       WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "no answer");
  if (kind >= 0)
    return Error{static_cast<ErrorKind>(kind), {}, text.substr(static_cast<size_t>(read)), {}, {}, {}};
  measured.peak_bytes = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
  return measured;
}

}  // namespace tandem
