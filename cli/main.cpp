// The program: flags to calls, errors to words and an exit code.

#include <new>

#include "base/signals.h"
#include "cli/command.h"

namespace tandem {
namespace {

int run(int argc, char** argv) {
  install_signal_handlers();
  Session session;
  CLI::App app{
      "tandem carries a model between PyTorch and TensorFlow, and proves that both sides compute the same.",
      "tandem"};
  app.set_version_flag("--version", "tandem " TANDEM_VERSION);
  app.require_subcommand(1);
  app.footer("Each command has its own --help, with examples.");
  add_inspect(app, session);
  add_map(app, session);
  add_convert(app, session);
  add_verify(app, session);
  add_run(app, session);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked_for_help) {
    return app.exit(asked_for_help);
  } catch (const CLI::Error& error) {
    session.outcome = usage("", "{}", error.what()).because("see tandem --help");
  } catch (const std::bad_alloc&) {
    session.outcome = Error{ErrorKind::memory, {}, "out of memory", {}, {}, {}};
  } catch (const std::exception& error) {
    session.outcome = bug("", "unexpected: {}", error.what());
  }
  const int code = finish(session);
  return interrupted() ? interrupted_exit_code() : code;
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) { return tandem::run(argc, argv); }
