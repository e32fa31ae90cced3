#pragma once
// A worker as a child process: started, spoken to, and its death turned into an error.

#include <sys/types.h>

#include "engines/protocol.h"

namespace tandem {

/// How a worker is started.
struct WorkerCommand {
  std::vector<std::string> arguments;  ///< [0] is the program's path
  std::string install_hint;            ///< what to do when it cannot start or dies while it starts
  bool shielded = false;               ///< SIGINT is blocked in it
  bool beside_others = false;          ///< its threads wait asleep: others compute at the same time
};

/// How the worker of a framework is started. Errors: engine_c1 (unavailable) it is not installed.
Result<WorkerCommand> worker_command(EngineKind kind);
/// The same of a script beside our program, run by the Python that `make TARGET` installs: venv,
/// venv-keras-hub or venv-bench.
Result<WorkerCommand> python_command(std::string_view target, std::string_view script);

/// A running worker. Both its outputs are kept aside; the last lines are told when it dies. Not for several
/// threads at once.
class WorkerProcess {
 public:
  /// Errors: engine_c1 (unavailable) the program cannot be started.
  static Result<std::unique_ptr<WorkerProcess>> start(const WorkerCommand& command);
  /// Tells the worker to quit, waits a moment, and kills it if it is still there.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  /// Sends a request and receives the reply. Errors: unavailable once a signal asked to stop;
  /// the worker's own (ok=0); engine_c2 (unavailable) it
  /// died, with its last words; engine_c3 (unavailable) no reply in time, whereupon it is killed; engine_c4
  /// (corrupt) it answered with garbage, whereupon it is killed. After any of the last three every call
  /// returns that error again.
  Result<Message> call(const Message& request, double timeout_s);

 private:
  WorkerProcess() = default;
  Error obituary(const Error& cause, const Message& request, double timeout_s);
  std::string last_lines() const;

  std::string program_;
  pid_t pid_ = -1;
  int socket_ = -1;
  int output_ = -1;  ///< an unnamed file with what the worker printed
  std::optional<Error> ended_;
};

}  // namespace tandem
