// tandem record: what a side computes, as a file that another machine compares with.

#include "cli/command.h"
#include "verify/record_side.h"

namespace tandem {
namespace {

struct Flags {
  std::string side, out;
  std::string levels = "layer,module,model";
  std::vector<std::string> accepted_keys;
  RecordOptions options;
};

constexpr const char* kFooter =
    "SIDE is a path with an optional engine in front, as of verify: hf:, torch: or tf:. It is run on the "
    "prompts that\n"
    "verify would use, and FILE, one safetensors file, holds them and what came out: logits and taps. On the "
    "other\n"
    "machine FILE is a side of verify. It has no weights: the level weights needs both sides, and the "
    "contract in\n"
    "float64 is run from the side that is there.\n"
    "\n"
    "Levels say what is recorded: layer (every tap, short prompts), module (hidden states down the stack), "
    "model (logits).\n"
    "docs/recording.md has the format, and makes a dump of any model in Python, without tandem.\n"
    "\n"
    "Examples:\n"
    "  tandem record hf:./deepseek-llm-7b --out llm.dump           where PyTorch is\n"
    "  tandem verify dump:llm.dump tf:./llm.savedmodel             where TensorFlow is\n"
    "  tandem record tf:./llm.savedmodel --out tf.dump --levels model --tokens prompts.txt\n"
    "  tandem verify dump:llm.dump dump:tf.dump                    where neither is";

Status read_levels(Flags& flags) {
  const std::pair<std::string_view, bool RecordOptions::*> rows[] = {
      {"layer", &RecordOptions::layer}, {"module", &RecordOptions::module}, {"model", &RecordOptions::model}};
  for (const auto& [name, wanted] : rows) flags.options.*wanted = false;
  for (std::string_view rest = flags.levels; !rest.empty();) {
    const std::string_view level = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), level.size() + 1));
    const auto found =
        std::find_if(std::begin(rows), std::end(rows), [&](const auto& row) { return row.first == level; });
    if (found == std::end(rows))
      return usage("", "--levels: \"{}\" is none of layer, module, model", level)
          .because("weights and generation need the model itself");
    flags.options.*found->second = true;
  }
  if (flags.levels.empty()) return usage("", "--levels: name at least one of layer, module, model");
  return {};
}

void print(const RecordReport& report) {
  for (const std::string& note : report.notes) fmt::print("skipped: {}\n", for_terminal(note));
  fmt::print("{} probes, {} taps for the levels {}: {} tensors, {}, written to {}\n", report.probes.size(),
             report.taps, fmt::join(report.levels, ", "), with_commas(report.tensors),
             human_bytes(report.bytes), for_terminal(report.out));
}

Result<int> record_command(Flags& flags, bool json) {
  TANDEM_CHECK(read_levels(flags));
  TANDEM_TRY(const SideSpec side, parse_side(flags.side));
  flags.options.accepted_keys = {flags.accepted_keys.begin(), flags.accepted_keys.end()};
  flags.options.engine.accepted_keys = flags.options.accepted_keys;
  const Result<RecordReport> report = record_side(real_files(), side, flags.out, flags.options);
  if (!report.ok()) return report.error();
  if (json)
    print_json(to_json(report.value()));
  else
    print(report.value());
  return 0;
}

}  // namespace

void add_record(CLI::App& app, Session& session) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = add_command(
      app, session, "record", "Write down what a side computes, to compare it on another machine", kFooter);
  command->add_option("SIDE", flags->side, "[hf:|torch:|tf:]PATH")->required();
  command->add_option("--out", flags->out, "The file to make")->required();
  command->add_option("--levels", flags->levels,
                      fmt::format("Some of layer, module, model (default: {})", flags->levels));
  command->add_option("--tokens", flags->options.tokens_file,
                      "Prompts in place of the default ones: a line of ids each");
  command->add_flag("--force", flags->options.force, "Replace FILE");
  command
      ->add_option("--threads", flags->options.engine.threads,
                   "Threads of the engine (default: the framework's)")
      ->check(whole_number());
  command
      ->add_option("--timeout", flags->options.engine.timeout_s,
                   "Seconds that one call of the engine may take")
      ->check(positive_number());
  add_accepted_keys(*command, flags->accepted_keys);
  add_limits(*command, flags->options.limits);
  command->callback([flags, &session] { session.outcome = record_command(*flags, session.json); });
}

}  // namespace tandem
