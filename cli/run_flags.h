#pragma once
// What the ways of `tandem run` share.

#include "cli/command.h"
#include "generate/conversation.h"
#include "generate/run_stats.h"

namespace tandem {

struct RunFlags {
  std::string path;
  std::optional<std::string> prompt;  ///< text
  std::string tokens;                 ///< ids, in its place
  bool chat = false;
  std::string system;
  std::vector<std::string> variables;  ///< NAME=VALUE for the chat template
  std::string engine;
  std::string compare;  ///< the other side of a comparison
  AnswerWishes wishes;
  SamplingWishes sampling;
  uint64_t seed = 0;  ///< where none is asked for
  EngineOptions options;
  std::vector<uint64_t> warm_up;  ///< lengths of prompts
  bool stats = false;
  bool speculative = false;
  std::vector<std::string> accepted_keys;
};

Result<SideSpec> side_of(const RunFlags& flags);
/// Opens the model and starts its engine, saying so at a terminal.
Result<TextModel> open_for_run(const RunFlags& flags, const SideSpec& spec);
/// The stats of an engine that was started in `load_s`, warmed up as the flags say. Errors: usage a length
/// that the model does not read; the engine's.
Result<RunStats> begin_stats(const RunFlags& flags, const Model& model, Engine& engine, double load_s);
/// With --stats, on stderr.
void print_stats(const RunFlags& flags, const RunStats& stats);
/// "note: ..." on stderr, a line each.
void print_notes(const std::vector<std::string>& notes);
/// The sampling that flags and the model's generation_config.json ask for. Errors: sampling_options's, at the
/// file in `folder`.
Result<SamplingOptions> sampling_of(const RunFlags& flags, const GenerationConfig& config,
                                    const std::string& folder);
/// On stderr, how the same text is made again; nothing where no token is drawn.
void print_sampling(const SamplingOptions& sampling);
/// The answer's fields of --json.
Json to_json(const Answer& answer);

/// run --chat, run --compare.
Result<int> run_chat(const RunFlags& flags, bool json);
Result<int> run_compare(const RunFlags& flags, bool json);

/// A conversation with --system and --set.
Result<Conversation> begin_conversation(const RunFlags& flags, const TextModel& model);

/// NAME=VALUE for a chat template, the value as JSON, or as it is where it is none. Errors: usage.
Status add_variable(const std::string& word, Json& variables);

}  // namespace tandem
