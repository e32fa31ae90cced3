// tandem run --compare: two engines continue one text.

#include "base/signals.h"
#include "cli/answer_printer.h"
#include "cli/run_flags.h"
#include "generate/compare_runs.h"
#include "text/first_difference.h"

namespace tandem {
namespace {

/// The other side: an engine alone runs the same path.
Result<SideSpec> other_side(const RunFlags& flags) {
  if (const auto engine = engine_named(flags.compare); engine.ok())
    return SideSpec{engine.value(), flags.path};
  return parse_side(flags.compare);
}

std::string title(const TextModel& model) {
  const EngineInfo& info = model.engine->info();
  const auto engine = info.find("engine");
  return fmt::format("{} {}", engine == info.end() ? "" : engine->second, model.opened.path);
}

/// Of bytes that are no whole character, or blanks, the id alone says which.
std::string quoted(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json to_json(const FirstDifference& difference) {
  return Json{{"step", difference.step},
              {"position", difference.prompt_tokens + difference.step},
              {"class", name(difference.parting)},
              {"left_id", difference.reference_id},
              {"right_id", difference.other_id},
              {"left_text", difference.reference_text},
              {"right_text", difference.other_text},
              {"left_margin", difference.reference_margin},
              {"right_margin", difference.other_margin},
              {"bar", difference.bar}};
}

Json to_json(const ComparedRuns& runs) {
  if (!runs.difference) return nullptr;
  Json json = to_json(*runs.difference);
  if (runs.logit_difference) json["logit_difference"] = *runs.logit_difference;
  return json;
}

void print(const ComparedRuns& runs, const TextModel& left, const TextModel& right) {
  if (!runs.difference) {
    fmt::print("\nboth sides write the same, {} tokens ({})\n", runs.left.ids.size(), name(runs.left.finish));
    return;
  }
  const FirstDifference& difference = *runs.difference;
  fmt::print("\n\nthey part at new token {} (position {}), {}; near ties up to {:.2e}\n", difference.step + 1,
             difference.prompt_tokens + difference.step,
             is_excused(difference.parting) ? "a near tie" : "NO near tie", difference.bar);
  if (runs.logit_difference)
    fmt::print("their logits there differ by up to {:.2e}\n", *runs.logit_difference);
  print_table({{"", "ID", "TEXT", "AHEAD OF THE OTHER'S CHOICE BY"},
               {"left", fmt::format("{}", difference.reference_id), quoted(difference.reference_text),
                fmt::format("{:.2e}", difference.reference_margin)},
               {"right", fmt::format("{}", difference.other_id), quoted(difference.other_text),
                fmt::format("{:.2e}", difference.other_margin)}});
  fmt::print("\nleft   {}\n{}\n", for_terminal(title(left)), for_terminal(runs.left.text));
  fmt::print("\nright  {}\n{}\n", for_terminal(title(right)), for_terminal(runs.right.text));
}

/// The prompt's ids, the same by both sides' tokenizers.
Result<Turn> turn_of(const RunFlags& flags, const TextModel& model) {
  if (flags.chat) {
    TANDEM_TRY(const Conversation conversation, begin_conversation(flags, model));
    return conversation.ask(*flags.prompt);
  }
  Turn turn;
  if (!flags.tokens.empty()) {
    TANDEM_TRY(turn.ids, parse_ids(flags.tokens, model.model.vocab_size));
  } else {
    TANDEM_TRY(turn.ids, text::prompt_ids(model.text, *flags.prompt));
  }
  return turn;
}

}  // namespace

Result<int> run_compare(const RunFlags& flags, bool json) {
  if (flags.chat && !flags.prompt) return usage("", "--compare needs a text, or ids");
  TANDEM_TRY(const SideSpec left_spec, side_of(flags));
  TANDEM_TRY(const SideSpec right_spec, other_side(flags));
  TANDEM_TRY(TextModel left, open_for_run(flags, left_spec));
  TANDEM_TRY(TextModel right, open_for_run(flags, right_spec));
  TANDEM_TRY(const Turn turn, turn_of(flags, left));
  TANDEM_TRY(const Turn other, turn_of(flags, right));
  if (const std::string parted =
          text::first_difference(left.text.tokenizer, turn.ids, right.text.tokenizer, other.ids);
      !parted.empty())
    return not_equal("verify_c12", "the sides read the prompt as other ids: {}", parted);
  CompareRunsOptions options;
  TANDEM_TRY(options.answer, answer_options(left.model, left.config, turn.ids.size(), flags.wishes));
  options.answer.reasoning_is_open = turn.reasoning_is_open;
  options.answer.interrupted = interrupted;
  TANDEM_TRY(options.choice.sampling, sampling_of(flags, left.config, left.opened.path));
  options.choice.allowed = left.allowed;
  const bool wide = compute_of(left.opened) == DType::f32;
  const Tolerance& table = tolerance_of(wide ? compute_of(right.opened) : compute_of(left.opened));
  options.top1_gap = table.top1_gap;
  options.max_abs_error = table.max_abs_error;
  AnswerPrinter printer;
  if (!json) {
    print_notes(left.notes());
    print_sampling(options.choice.sampling);
    options.answer.show = [&](const text::Part& part) { printer.show(part); };
  }
  TANDEM_TRY(const ComparedRuns runs,
             compare_runs(*left.engine, *right.engine, left.text.tokenizer, turn.ids, options));
  if (json) {
    Json sides[] = {to_json(runs.left), to_json(runs.right)};
    sides[0]["engine"] = left.engine->info();
    sides[1]["engine"] = right.engine->info();
    print_json(Json{{"equal", runs.equal()},
                    {"prompt", turn.ids},
                    {"first_difference", to_json(runs)},
                    {"left", sides[0]},
                    {"right", sides[1]},
                    {"sampling", to_json(options.choice.sampling)},
                    {"notes", left.notes()}});
  } else {
    print(runs, left, right);
  }
  return runs.equal() ? 0 : exit_code(ErrorKind::not_equal);
}

}  // namespace tandem
