// tandem run: greedy token ids by an engine.

#include "base/signals.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "verify/generate.h"
#include "verify/side.h"

namespace tandem {
namespace {

struct Flags {
  std::string path;
  std::string tokens;
  std::string engine;
  GenerateOptions generate;
  EngineOptions options;
  std::vector<std::string> accepted_keys;
  bool ignore_eos = false;
};

constexpr const char* kFooter =
    "Examples:\n"
    "  tandem run ./llm.savedmodel --tokens 100000,549,6077 --max-new-tokens 20\n"
    "  tandem run ./deepseek-llm-7b --tokens 100000,549,6077 --engine torch\n"
    "\n"
    "Prints the new ids, with commas between. Stops after an end token of the config.";

Result<EngineKind> engine_of(const Flags& flags, ModelFormat format) {
  if (flags.engine.empty()) return engine_for(format, {});
  TANDEM_TRY(const EngineKind wanted, engine_named(flags.engine));
  return engine_for(format, wanted);
}

std::string with_comma_between(const std::vector<int32_t>& ids) {
  return fmt::format("{}", fmt::join(ids, ","));
}

Result<int> run_command(Flags& flags, bool json) {
  TANDEM_TRY(const OpenedModel opened, open_model(real_files(), flags.path));
  TANDEM_TRY(const EngineKind kind, engine_of(flags, opened.format));
  TANDEM_TRY(const Model model, model_of(opened, {{flags.accepted_keys.begin(), flags.accepted_keys.end()}}));
  TANDEM_TRY(const std::vector<int32_t> prompt, parse_ids(flags.tokens, model.vocab_size));
  if (!flags.ignore_eos) flags.generate.eos_token_ids = model.eos_token_ids;
  flags.options.accepted_keys = {flags.accepted_keys.begin(), flags.accepted_keys.end()};
  TANDEM_TRY(const auto engine, Engine::start(kind, opened.path, flags.options));
  Progress progress("running");
  uint64_t steps = 0;
  TANDEM_TRY(const std::vector<int32_t> ids, generate(*engine, prompt, flags.generate, [&]() -> Status {
               if (interrupted()) return unavailable("", "stopped by a signal");
               progress.show(steps++, flags.generate.max_new_tokens);
               return {};
             }));
  if (json)
    print_json(Json{{"tokens", ids}, {"prompt", prompt}, {"engine", engine->info()}});
  else
    fmt::print("{}\n", with_comma_between(ids));
  return 0;
}

}  // namespace

void add_run(CLI::App& app, Session& session) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = add_command(app, session, "run", "Continue token ids greedily", kFooter);
  command->add_option("MODEL", flags->path, "SavedModel or Hugging Face folder")->required();
  command->add_option("--tokens", flags->tokens, "The prompt: ids with commas between")->required();
  command->add_option("--max-new-tokens", flags->generate.max_new_tokens, "How many ids to add (default 16)")
      ->check(whole_number());
  command->add_option("--engine", flags->engine,
                      "tf, torch or hf (default: tf for a SavedModel, hf for a folder)");
  command->add_option("--threads", flags->options.threads, "Threads of the engine (default: the framework's)")
      ->check(whole_number());
  command->add_flag("--ignore-eos", flags->ignore_eos, "Go on after an end token");
  add_accepted_keys(*command, flags->accepted_keys);
  command->callback([flags, &session] { session.outcome = run_command(*flags, session.json); });
}

}  // namespace tandem
