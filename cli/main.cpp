// The program: flags to calls, errors to words and an exit code.

#include <malloc.h>

#include <algorithm>
#include <new>
#include <system_error>

#include "base/signals.h"
#include "cli/command.h"

namespace tandem {
namespace {

std::vector<const CLI::App*> commands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

/// The command that the first word names, or null.
const CLI::App* command_of(const CLI::App& app, int argc, char** argv) {
  for (const CLI::App* command : commands(app))
    if (argc > 1 && command->get_name() == argv[1]) return command;
  return nullptr;
}

/// A first word that is no command is named before the parser asks for one.
void check_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-' || command_of(app, argc, argv)) return;
  std::string names;
  for (const CLI::App* command : commands(app)) names += " " + command->get_name();
  throw CLI::ParseError(fmt::format("there is no command \"{}\", only{}", argv[1], names), 2);
}

std::string help_for(const CLI::App& app, int argc, char** argv) {
  const CLI::App* command = command_of(app, argc, argv);
  return command ? fmt::format("see tandem {} --help", command->get_name()) : "see tandem --help";
}

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
  add_slice(app, session);
  add_plan(app, session);
  add_run_task(app, session);
  add_finalize(app, session);
  add_verify(app, session);
  add_run(app, session);
  add_record(app, session);
  add_plant(app, session);
  add_bench(app, session);
  add_sign(app, session);
  add_check(app, session);
  add_tokenize(app, session);
  add_chat_template(app, session);
  try {
    check_command(app, argc, argv);
    app.parse(argc, argv);
  } catch (const CLI::Success& asked_for_help) {
    return app.exit(asked_for_help);
  } catch (const CLI::Error& error) {
    session.json |=
        std::any_of(argv + 1, argv + argc, [](std::string_view word) { return word == "--json"; });
    session.outcome = usage("", "{}", error.what()).because(help_for(app, argc, argv));
  } catch (const std::system_error& error) {
    session.outcome = io_error("write", "standard output", error.code().value());
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

int main(int argc, char** argv) {
  // Small pieces are joined as they are freed. Else those of a graph's messages, a hundred thousand, are
  // joined at once when the first large one goes: 8 of the 64 ms of a small conversion.
  mallopt(M_MXFAST, 0);
  return tandem::run(argc, argv);
}
