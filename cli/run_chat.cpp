// tandem run --chat: a dialogue.

#include <unistd.h>

#include "base/signals.h"
#include "cli/answer_printer.h"
#include "cli/line_editor.h"
#include "cli/run_flags.h"

namespace tandem {
namespace {

class Chat {
 public:
  Chat(TextModel& model, Conversation& conversation, const RunFlags& flags, const SamplingOptions& sampling,
       RunStats stats, bool json)
      : model_(model),
        conversation_(conversation),
        flags_(flags),
        sampling_(sampling),
        stats_(std::move(stats)),
        json_(json),
        lines_("> ") {}

  Status talk() {
    printer_.aside(
        fmt::format("{} with {} {}. /help says what there is; Ctrl-C stops an answer, Ctrl-D ends.\n",
                    model_.model.architecture, info("engine"), info("version")));
    while (!done_ && !interrupted()) {
      TANDEM_TRY(const std::optional<std::string> line, lines_.next());
      if (!line) break;
      if (line->find_first_not_of(" \t\r") == line->npos) continue;
      lines_.remember(*line);
      TANDEM_CHECK(line->front() == '/' ? command(*line) : message(*line));
    }
    if (!done_) printer_.aside("\n");
    return {};
  }

 private:
  struct CommandRow {
    std::string_view name, what;
    void (Chat::*run)();
  };
  static const CommandRow kCommands[3];

  std::string info(const char* key) const {
    const auto found = model_.engine->info().find(key);
    return found == model_.engine->info().end() ? std::string() : found->second;
  }

  Status command(const std::string& line) {
    const std::string_view word = std::string_view(line).substr(0, line.find_last_not_of(" \t\r") + 1);
    for (const CommandRow& row : kCommands)
      if (row.name == word) {
        (this->*row.run)();
        return {};
      }
    fmt::print(stderr,
               "there is no {}: /help says what there is; a message may begin with a blank and then /\n",
               for_terminal(word));
    return {};
  }
  void help() {
    for (const CommandRow& row : kCommands) printer_.aside(fmt::format("{:<8}{}\n", row.name, row.what));
    printer_.aside(
        "Ctrl-C stops an answer or throws a line away, Ctrl-D ends, the arrows bring lines back.\n");
  }
  void reset() {
    conversation_.reset();
    printer_.aside("The conversation begins anew.\n");
  }
  void quit() { done_ = true; }

  /// One turn. What is wrong with one message (too long, refused by the template) is said, and does not end
  /// the conversation; an engine that is gone does.
  Status message(const std::string& line) {
    take_interrupt();
    auto turn = conversation_.ask(line);
    if (!turn.ok()) return refused(turn.error());
    auto options = answer_options(model_.model, model_.config, turn.value().ids.size(), flags_.wishes);
    if (!options.ok()) return refused(options.error());
    AnswerOptions& answering = options.value();
    answering.reasoning_is_open = turn.value().reasoning_is_open;
    answering.interrupted = [] { return take_interrupt() || interrupted(); };
    if (!json_) answering.show = [this](const text::Part& part) { printer_.show(part); };
    const std::vector<int32_t>& ids = turn.value().ids;
    const NextToken next = begin_answer(
        stats_, chosen(*model_.engine, {sampling_, ids.size(), answers_++, model_.allowed}), ids.size());
    TANDEM_TRY(const Answer made, answer(next, model_.text.tokenizer, ids, answering));
    TANDEM_CHECK(end_answer(stats_, *model_.engine));
    conversation_.add(line, made);
    print(made, turn.value());
    return {};
  }
  Status refused(const Error& error) {
    if (error.kind == ErrorKind::unavailable) return error;
    fmt::print(stderr, "{}\n", for_terminal(error.message()));
    return {};
  }
  void print(const Answer& made, const Turn& turn) {
    if (json_) {
      Json result = to_json(made);
      result["prompt"] = turn.ids;
      result["engine"] = model_.engine->info();
      result["sampling"] = to_json(sampling_);
      result["notes"] = model_.notes();
      if (flags_.stats) result["stats"] = to_json(stats_);
      fmt::print("{}\n", result.dump(-1, ' ', false, Json::error_handler_t::replace));
      std::fflush(stdout);
      return;
    }
    printer_.end();
    if (made.finish == Finish::interrupted) printer_.aside("(stopped)\n");
    if (made.finish == Finish::length)
      printer_.aside(fmt::format("(cut after {} tokens)\n", made.ids.size()));
    print_stats(flags_, stats_);
  }

  TextModel& model_;
  Conversation& conversation_;
  const RunFlags& flags_;
  SamplingOptions sampling_;
  RunStats stats_;
  bool json_;
  uint64_t answers_ = 0;  ///< the row of the next one: no two answers share their draws
  LineEditor lines_;
  AnswerPrinter printer_;
  bool done_ = false;
};

const Chat::CommandRow Chat::kCommands[3] = {
    {"/help", "what there is", &Chat::help},
    {"/reset", "begin anew, with the same system message", &Chat::reset},
    {"/quit", "end", &Chat::quit},
};

}  // namespace

Result<int> run_chat(const RunFlags& flags, bool json) {
  TANDEM_TRY(const SideSpec spec, side_of(flags));
  const Stopwatch watch;
  TANDEM_TRY(TextModel model, open_for_run(flags, spec));
  TANDEM_TRY(RunStats stats, begin_stats(flags, model.model, *model.engine, watch.seconds()));
  TANDEM_TRY(Conversation conversation, begin_conversation(flags, model));
  TANDEM_TRY(const SamplingOptions sampling, sampling_of(flags, model.config, model.opened.path));
  if (!json) {
    print_notes(model.notes());
    print_sampling(sampling);
  }
  stay_on_interrupt();
  TANDEM_CHECK(Chat(model, conversation, flags, sampling, std::move(stats), json).talk());
  return 0;
}

}  // namespace tandem
