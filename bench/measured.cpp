#include "bench/measured.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>

#include "base/json.h"

namespace tandem {
namespace {

/// What a child tells: its seconds, or its whole error.
void tell(int pipe, double seconds, const Error* error) {
  Json told{{"seconds", seconds}};
  if (error)
    told["error"] = Json{{"kind", static_cast<int>(error->kind)},
                         {"rule", error->rule},
                         {"text", error->text},
                         {"where", error->where},
                         {"hint", error->hint}};
  const std::string text = told.dump(-1, ' ', false, Json::error_handler_t::replace);
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
  const auto told = parse_json(text);
  if (!WIFEXITED(status) || !told.ok())
    return unavailable("", "the measured process died ({})",
                       WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "no answer");
  if (told.value().contains("error")) {
    const Json& error = told.value()["error"];
    return Error{static_cast<ErrorKind>(error["kind"].get<int>()),
                 error["rule"].get<std::string>(),
                 error["text"].get<std::string>(),
                 error["where"].get<std::string>(),
                 {},
                 error["hint"].get<std::string>()};
  }
  Measured measured;
  measured.seconds = told.value()["seconds"].get<double>();
  measured.peak_bytes = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
  return measured;
}

}  // namespace tandem
