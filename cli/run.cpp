// tandem run: a text, or token ids, continued by an engine.

#include <unistd.h>

#include <random>

#include "base/signals.h"
#include "cli/answer_printer.h"
#include "cli/progress.h"
#include "cli/run_flags.h"

namespace tandem {
namespace {

constexpr const char* kFooter =
    "Continues a text, token by token. The tokenizer, the stop tokens, the way to sample and the chat "
    "template are the\n"
    "model's own (docs/run.md); what its generation_config.json asks for and is not done is said on stderr.\n"
    "\n"
    "The most likely token is taken each time, unless a flag of sampling or do_sample of "
    "generation_config.json says\n"
    "otherwise. Flags come before the file. One seed gives one text, with every engine (docs/sampling.md); a "
    "seed that was\n"
    "not asked for is written to stderr, and into --json.\n"
    "\n"
    "Examples:\n"
    "  tandem run ./SmolLM2-135M-Instruct \"The capital of France is\"\n"
    "  tandem run ./smollm2.savedmodel \"1, 2, 4, 8,\" --max-new-tokens 20 --stop 64\n"
    "  tandem run ./SmolLM2-135M-Instruct --chat\n"
    "  tandem run ./SmolLM2-135M-Instruct --chat \"What is a tandem?\"       one answer, without a dialogue\n"
    "  tandem run ./SmolLM2-135M-Instruct \"Once\" --compare tf:./smollm2.savedmodel   where do they part?\n"
    "  tandem run ./SmolLM2-135M-Instruct \"Once\" --temperature 0.7 --top-p 0.9 --seed 5    drawn, not "
    "greedy\n"
    "  tandem run ./smollm2.savedmodel \"Once\" --compiled --warm-up 64 --stats    how fast is it?\n"
    "  tandem run ./v3.savedmodel \"Once\" --greedy --speculative --stats    how often are drafts right?\n"
    "  tandem run ./deepseek-llm-7b --tokens 100000,549,6077 --engine torch    ids in, ids out\n"
    "\n"
    "PROMPT may be -, for the standard input. Ctrl-C ends the answer; what was written stands.";

std::string with_comma_between(const std::vector<int32_t>& ids) {
  return fmt::format("{}", fmt::join(ids, ","));
}

Result<std::string> text_from_stdin() {
  constexpr size_t kMaxBytes = size_t(64) << 20;
  std::string text;
  char block[1 << 16];
  while (const size_t count = std::fread(block, 1, sizeof block, stdin)) {
    text.append(block, count);
    if (text.size() > kMaxBytes)
      return invalid("", "a prompt above {} bytes", kMaxBytes).at("standard input");
  }
  if (std::ferror(stdin)) return io_error("read", "standard input", errno);
  return text;
}

/// How the next token comes to be: one by one, or with drafts several at once.
Result<NextToken> next_token(const RunFlags& flags, EngineKind kind, Engine& engine, Choice choice,
                             uint64_t most, RunStats& stats) {
  if (!flags.speculative) return chosen(engine, std::move(choice));
  if (kind != EngineKind::tf)
    return usage("", "--speculative is for the engine tf, not {}", name(kind))
        .because("tandem convert --with-mtp makes a SavedModel that drafts");
  if (draws(choice.sampling) || choice.sampling.repetition_penalty != 1)
    return usage("", "--speculative takes the most likely token each time")
        .because("the model's generation_config.json asks for another way: add --greedy");
  stats.drafts.emplace();
  return speculative(engine, most, std::move(choice.allowed), *stats.drafts);
}

/// Ids in, ids out: no tokenizer takes part.
Result<int> run_tokens(RunFlags& flags, bool json) {
  TANDEM_TRY(const SideSpec spec, side_of(flags));
  TANDEM_TRY(const OpenedModel opened, open_model(real_files(), flags.path));
  TANDEM_TRY(const EngineKind kind, engine_for(opened.format, spec.engine));
  TANDEM_TRY(const Model model, model_of(opened, {{flags.accepted_keys.begin(), flags.accepted_keys.end()}}));
  TANDEM_TRY(const std::vector<int32_t> prompt, parse_ids(flags.tokens, model.vocab_size));
  TANDEM_TRY(const GenerationConfig config, generation_config(opened.side_files, model.vocab_size));
  TANDEM_TRY(const SamplingOptions sampling, sampling_of(flags, config, opened.path));
  const Stopwatch watch;
  TANDEM_TRY(const auto engine, Engine::start(kind, opened.path, flags.options));
  TANDEM_TRY(RunStats stats, begin_stats(flags, model, *engine, watch.seconds()));
  if (!json) {
    print_notes(config.notes);
    print_sampling(sampling);
  }
  GenerateOptions options;
  options.max_new_tokens = flags.wishes.max_new_tokens.value_or(options.max_new_tokens);
  if (!flags.wishes.ignore_stop_tokens) options.stop_ids = config.stop_ids;
  options.interrupted = interrupted;
  Progress progress("running");
  uint64_t steps = 0;
  options.go_on = [&](int32_t) {
    progress.show(++steps, options.max_new_tokens);
    return true;
  };
  TANDEM_TRY(NextToken token,
             next_token(flags, kind, *engine, {sampling, prompt.size()}, options.max_new_tokens, stats));
  const NextToken next = begin_answer(stats, std::move(token), prompt.size());
  TANDEM_TRY(const Generated made, generate(next, prompt, options));
  TANDEM_CHECK(end_answer(stats, *engine));
  if (!json) {
    fmt::print("{}\n", with_comma_between(made.ids));
    print_stats(flags, stats);
    return 0;
  }
  Json result{{"tokens", made.ids},       {"finish_reason", name(made.finish)}, {"prompt", prompt},
              {"engine", engine->info()}, {"sampling", to_json(sampling)},      {"notes", config.notes}};
  if (flags.stats) result["stats"] = to_json(stats);
  print_json(result);
  return 0;
}

Result<int> run_text(const RunFlags& flags, bool json) {
  std::string prompt = *flags.prompt;
  if (prompt == "-") {
    TANDEM_TRY(prompt, text_from_stdin());
  }
  TANDEM_TRY(const SideSpec spec, side_of(flags));
  const Stopwatch watch;
  TANDEM_TRY(TextModel model, open_for_run(flags, spec));
  TANDEM_TRY(RunStats stats, begin_stats(flags, model.model, *model.engine, watch.seconds()));
  std::vector<int32_t> ids;
  bool reasoning_is_open = false;
  if (flags.chat) {
    TANDEM_TRY(const Conversation conversation, begin_conversation(flags, model));
    TANDEM_TRY(Turn turn, conversation.ask(prompt));
    ids = std::move(turn.ids);
    reasoning_is_open = turn.reasoning_is_open;
  } else {
    TANDEM_TRY(ids, text::prompt_ids(model.text, prompt));
  }
  TANDEM_TRY(const SamplingOptions sampling, sampling_of(flags, model.config, model.opened.path));
  TANDEM_TRY(AnswerOptions options, answer_options(model.model, model.config, ids.size(), flags.wishes));
  options.reasoning_is_open = reasoning_is_open;
  options.interrupted = interrupted;
  AnswerPrinter printer;
  if (!json) {
    print_notes(model.notes());
    print_sampling(sampling);
    if (!flags.chat) printer.aside(prompt);
    options.show = [&](const text::Part& part) { printer.show(part); };
  }
  TANDEM_TRY(const EngineKind kind, engine_for(model.opened.format, spec.engine));
  TANDEM_TRY(NextToken token, next_token(flags, kind, *model.engine, {sampling, ids.size(), 0, model.allowed},
                                         options.max_new_tokens, stats));
  const NextToken next = begin_answer(stats, std::move(token), ids.size());
  TANDEM_TRY(const Answer made, answer(next, model.text.tokenizer, ids, options));
  TANDEM_CHECK(end_answer(stats, *model.engine));
  if (!json) {
    printer.end();
    print_stats(flags, stats);
    return 0;
  }
  Json result = to_json(made);
  result["prompt"] = ids;
  result["engine"] = model.engine->info();
  result["sampling"] = to_json(sampling);
  result["notes"] = model.notes();
  if (flags.stats) result["stats"] = to_json(stats);
  print_json(result);
  return 0;
}

Status check_flags(const RunFlags& flags) {
  const bool text = flags.prompt.has_value(), tokens = !flags.tokens.empty();
  if (!text && !tokens && !flags.chat)
    return usage("", "what shall be continued? A text, --tokens or --chat");
  if (text && tokens) return usage("", "a text and --tokens: give one of them");
  if (!flags.chat && !flags.system.empty()) return usage("", "--system needs --chat");
  if (!flags.chat && !flags.variables.empty()) return usage("", "--set needs --chat");
  if (tokens && !flags.wishes.stop_strings.empty()) return usage("", "--stop needs a text, not --tokens");
  if (flags.speculative && (flags.chat || !flags.compare.empty() || flags.options.compiled))
    return usage("", "--speculative does not go with --chat, --compare and --compiled");
  if (!flags.warm_up.empty() && !flags.options.compiled) return usage("", "--warm-up needs --compiled");
  if (!flags.compare.empty() && (flags.stats || !flags.warm_up.empty()))
    return usage("", "--stats and --warm-up are of one engine, without --compare");
  return check_flags(flags.sampling);
}

Result<int> run_command(RunFlags& flags, bool json) {
  TANDEM_CHECK(check_flags(flags));
  flags.options.accepted_keys = {flags.accepted_keys.begin(), flags.accepted_keys.end()};
  flags.options.shielded = true;
  flags.seed = std::random_device{}();
  if (!flags.compare.empty()) return run_compare(flags, json);
  if (!flags.tokens.empty()) return run_tokens(flags, json);
  if (!flags.prompt) return run_chat(flags, json);
  return run_text(flags, json);
}

}  // namespace

Result<SideSpec> side_of(const RunFlags& flags) {
  SideSpec spec{{}, flags.path};
  if (flags.engine.empty()) return spec;
  TANDEM_TRY(spec.engine, engine_named(flags.engine));
  return spec;
}

Result<TextModel> open_for_run(const RunFlags& flags, const SideSpec& spec) {
  const bool says = isatty(STDERR_FILENO);
  if (says) fmt::print(stderr, "loading {} ...", for_terminal(spec.path));
  const ArchOptions arch{{flags.accepted_keys.begin(), flags.accepted_keys.end()}};
  auto model = open_text_model(real_files(), spec, arch, flags.options);
  if (says) fmt::print(stderr, "\r\x1b[K");
  return model;
}

Result<Conversation> begin_conversation(const RunFlags& flags, const TextModel& model) {
  Json variables = Json::object();
  for (const std::string& word : flags.variables) TANDEM_CHECK(add_variable(word, variables));
  return Conversation::begin(model, flags.system, std::move(variables));
}

Result<SamplingOptions> sampling_of(const RunFlags& flags, const GenerationConfig& config,
                                    const std::string& folder) {
  auto options = sampling_options(flags.sampling, config.sampling, flags.seed);
  if (options.ok()) return options;
  Error error = std::move(options).error();
  error.where = join(folder, error.where);
  return error;
}

Result<RunStats> begin_stats(const RunFlags& flags, const Model& model, Engine& engine, double load_s) {
  RunStats stats{.load_s = load_s};
  if (flags.warm_up.empty()) return stats;
  const uint64_t most = model.max_position_embeddings;
  for (const uint64_t length : flags.warm_up)
    if (length == 0 || (most > 0 && length >= most))
      return usage("", "--warm-up {}: expected prompts of 1 token or more that leave room below {}", length,
                   most);
  TANDEM_CHECK(warm_up(engine, flags.warm_up, stats));
  return stats;
}

void print_stats(const RunFlags& flags, const RunStats& stats) {
  if (flags.stats) fmt::print(stderr, "{}", to_text(stats));
}

void print_sampling(const SamplingOptions& sampling) {
  if (!draws(sampling)) return;
  fmt::print(stderr, "note: tokens are drawn; the same text again: {}\n", flags_of(sampling));
}

void print_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) fmt::print(stderr, "note: {}\n", for_terminal(note));
}

Json to_json(const Answer& answer) {
  Json json{{"text", answer.text}};
  if (!answer.reasoning.empty()) json["reasoning"] = answer.reasoning;
  json["tokens"] = answer.ids;
  json["finish_reason"] = name(answer.finish);
  if (!answer.stopped_by.empty()) json["stop_string"] = answer.stopped_by;
  return json;
}

namespace {

void add_sampling(CLI::App& command, SamplingWishes& sampling) {
  command.add_flag_callback(
      "--greedy", [&sampling] { sampling.do_sample = false; },
      "The most likely token each time, whatever generation_config.json says");
  command.add_option("--temperature", sampling.temperature,
                     "Draw tokens, from logits divided by this (model's, else 1); 0: as --greedy");
  command.add_option("--top-k", sampling.top_k, "Draw among the K most likely (model's, else 50); 0: all")
      ->check(whole_number());
  command.add_option("--top-p", sampling.top_p,
                     "Draw among the most likely that make up this probability (model's, else 1)");
  command.add_option("--min-p", sampling.min_p,
                     "Draw among those at least this likely, as a part of the likeliest (model's, else 0)");
  command.add_option("--repetition-penalty", sampling.repetition_penalty,
                     "Divides logits of tokens that are there already (model's, else 1), drawn or not");
  command.add_option("--seed", sampling.seed, "Draw tokens, from this seed (default: another each time)")
      ->check(whole_number());
}

}  // namespace

void add_run(CLI::App& app, Session& session) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App* command = add_command(app, session, "run", "Continue a text, or chat", kFooter);
  command->add_option("MODEL", flags->path, "SavedModel or Hugging Face folder")->required();
  command->add_option("PROMPT", flags->prompt, "The text to continue; with --chat, the only message");
  command->add_option("--tokens", flags->tokens, "In place of a text: ids with commas between; prints ids");
  command->add_flag("--chat", flags->chat, "Talk to the model through its chat template (/help in it)");
  command->add_option("--system", flags->system, "With --chat, the system's message");
  command->add_option("--set", flags->variables, "With --chat, NAME=VALUE for the template; repeatable")
      ->allow_extra_args(false);
  command->add_option("--compare", flags->compare,
                      "Another engine (torch), or a side ([ENGINE:]PATH), to continue the same beside it");
  command
      ->add_option("--max-new-tokens", flags->wishes.max_new_tokens,
                   "How many tokens to add at most (default: the model's, else 256; with --tokens 16)")
      ->check(whole_number());
  command->add_option("--stop", flags->wishes.stop_strings, "A text that ends the answer; repeatable")
      ->allow_extra_args(false);
  add_sampling(*command, flags->sampling);
  command->add_option("--engine", flags->engine,
                      "tf, torch or hf (default: tf for a SavedModel, hf for a folder)");
  command->add_option("--threads", flags->options.threads, "Threads of the engine (default: the framework's)")
      ->check(whole_number());
  command->add_flag("--compiled", flags->options.compiled,
                    "tf: steps that XLA compiles, for a few lengths (docs/generation.md)");
  command
      ->add_option("--warm-up", flags->warm_up,
                   "With --compiled, lengths of prompts to compile for before the first, as 128,512")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(whole_number());
  command->add_flag("--speculative", flags->speculative,
                    "tf: draft with the prediction layer of a model converted --with-mtp; the same text, "
                    "up to 64 tokens at once");
  command->add_flag("--stats", flags->stats,
                    "Say how long loading, the first token and each later one took, and what was compiled");
  command->add_flag("--ignore-eos", flags->wishes.ignore_stop_tokens, "Go on after an end token");
  add_accepted_keys(*command, flags->accepted_keys);
  command->callback([flags, &session] { session.outcome = run_command(*flags, session.json); });
}

}  // namespace tandem
