#include "engines/worker_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/signals.h"

extern char** environ;

namespace tandem {
namespace {

constexpr int kWorkerSocket = 3;  // the worker's end; engine.h promises the number
constexpr size_t kLastWords = 2000;

// What the frameworks are told by environment: nothing from the network, no chatter, no TensorFloat-32 (which
// TensorFlow takes on GPUs unless told otherwise).
constexpr const char* kEnvironment[] = {"HF_HUB_OFFLINE=1",       "TRANSFORMERS_OFFLINE=1",
                                        "TF_CPP_MIN_LOG_LEVEL=2", "PYTHONDONTWRITEBYTECODE=1",
                                        "PYTHONUNBUFFERED=1",     "TOKENIZERS_PARALLELISM=false",
                                        "NVIDIA_TF32_OVERRIDE=0"};
constexpr const char* kBesideOthers = "OMP_WAIT_POLICY=PASSIVE";

/// Moves a descriptor out of the way of the numbers 0 to 3, which the child gives new meanings.
int raised(int descriptor) {
  const int high = fcntl(descriptor, F_DUPFD_CLOEXEC, kWorkerSocket + 1);
  ::close(descriptor);
  return high;
}

/// Ours in place of those of the same name, then what is left of the program's own.
std::vector<char*> environment(const WorkerCommand& command) {
  std::vector<const char*> given(std::begin(kEnvironment), std::end(kEnvironment));
  if (command.beside_others) given.push_back(kBesideOthers);
  std::vector<char*> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view key = text.substr(0, text.find('='));
    const bool ours = std::any_of(given.begin(), given.end(),
                                  [&](std::string_view row) { return row.substr(0, row.find('=')) == key; });
    if (!ours) result.push_back(*entry);
  }
  for (const char* entry : given) result.push_back(const_cast<char*>(entry));
  result.push_back(nullptr);
  return result;
}

int spawn(const WorkerCommand& command, int socket, int output, pid_t& pid) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  posix_spawn_file_actions_adddup2(&actions, socket, kWorkerSocket);
  std::vector<char*> arguments;
  for (const std::string& argument : command.arguments)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  if (command.shielded) {
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGINT);
    posix_spawnattr_setsigmask(&attributes, &blocked);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  }
  const int failed =
      posix_spawnp(&pid, arguments[0], &actions, &attributes, arguments.data(), environment(command).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return failed;
}

/// Waits for the child's end for at most that long; its wait status if it has ended.
std::optional<int> wait_for_end(pid_t pid, int timeout_ms) {
  if (const int handle = static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); handle >= 0) {
    pollfd entry{handle, POLLIN, 0};
    poll(&entry, 1, timeout_ms);
    ::close(handle);
  }
  int status = 0;
  return waitpid(pid, &status, WNOHANG) == pid ? std::optional(status) : std::nullopt;
}

int kill_and_wait(pid_t pid) {
  int status = 0;
  kill(pid, SIGKILL);
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

std::string manner_of_death(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("was killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

}  // namespace

Result<std::unique_ptr<WorkerProcess>> WorkerProcess::start(const WorkerCommand& command) {
  std::unique_ptr<WorkerProcess> worker(new WorkerProcess);
  worker->program_ = command.arguments[0].substr(command.arguments[0].rfind('/') + 1);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return io_error("socketpair for", worker->program_, errno);
  worker->socket_ = raised(ends[0]);
  const int theirs = raised(ends[1]);
  worker->output_ = raised(memfd_create("worker-output", MFD_CLOEXEC));
  const int failed = spawn(command, theirs, worker->output_, worker->pid_);
  ::close(theirs);
  if (failed != 0) {
    worker->pid_ = -1;
    return unavailable("engine_c1", "{} cannot be started: {}", command.arguments[0], strerror(failed))
        .because(command.install_hint);
  }
  return worker;
}

WorkerProcess::~WorkerProcess() {
  if (pid_ > 0) {
    const Status told = send_message(socket_, {{{"op", "quit"}}, {}}, seconds_from_now(0.1));
    if (!told.ok() || !wait_for_end(pid_, 2000)) kill_and_wait(pid_);
  }
  if (socket_ >= 0) ::close(socket_);
  if (output_ >= 0) ::close(output_);
}

Result<Message> WorkerProcess::call(const Message& request, double timeout_s) {
  if (ended_) return *ended_;
  if (interrupted()) return unavailable("", "stopped by a signal");  // it may have come to us alone
  const Deadline deadline = seconds_from_now(timeout_s);
  Status sent = send_message(socket_, request, deadline);
  if (!sent.ok() && (sent.error().rule == "protocol_c1" || sent.error().rule == "shape_c1"))
    return sent.error();  // nothing left us
  auto reply = sent.ok() ? receive_message(socket_, deadline) : Result<Message>(sent.error());
  if (!reply.ok()) return obituary(reply.error(), request, timeout_s);
  if (word(reply.value().words, "ok") == "1") return reply;
  Error error = error_from_words(reply.value().words);
  if (error.rule == "protocol_c3") return obituary(error, request, timeout_s);
  return error;
}

Error WorkerProcess::obituary(const Error& cause, const Message& request, double timeout_s) {
  const std::string op = word(request.words, "op");
  const std::string words_before = last_lines();
  if (cause.rule == "protocol_c4") {
    const auto status = wait_for_end(pid_, 2000);
    const int final_status = status ? *status : kill_and_wait(pid_);
    const std::string words = last_lines();
    ended_ = unavailable("engine_c2", "{} {} during {}{}{}", program_, manner_of_death(final_status), op,
                         words.empty() ? "" : "; it said: ", words);
    if (WIFSIGNALED(final_status) && WTERMSIG(final_status) == SIGKILL)
      ended_->hint = "the system may have run out of memory";
  } else {
    kill_and_wait(pid_);
    if (cause.rule == "protocol_c5")
      ended_ = unavailable("engine_c3", "{} gave no answer to {} in {} s and was stopped", program_, op,
                           timeout_s);
    else
      ended_ = corrupt("engine_c4", "{} answered {} with garbage and was stopped: {}", program_, op,
                       cause.message());
    if (!words_before.empty()) ended_->text += fmt::format("; it said: {}", words_before);
  }
  pid_ = -1;
  return *ended_;
}

std::string WorkerProcess::last_lines() const {
  struct stat info {};
  if (fstat(output_, &info) != 0 || info.st_size <= 0) return {};
  const auto size = static_cast<size_t>(info.st_size);
  std::string text(std::min(size, kLastWords), '\0');
  const ssize_t got = pread(output_, text.data(), text.size(), static_cast<off_t>(size - text.size()));
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  if (size > kLastWords) text.erase(0, text.find('\n') == text.npos ? 0 : text.find('\n') + 1);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  for (char& c : text)  // errors are one line
    if (static_cast<unsigned char>(c) < ' ') c = c == '\n' ? '|' : ' ';
  return text;
}

}  // namespace tandem
