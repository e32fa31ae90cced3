// tandem verify: do two sides hold and compute the same?

#include "verify/verify.h"

#include "cli/command.h"
#include "cli/progress.h"

namespace tandem {
namespace {

constexpr size_t kShownNearTies = 10;

struct Flags {
  std::string left, right;
  std::string levels = "weights,model";
  std::vector<std::string> accepted_keys;
  VerifyOptions options;
};

constexpr const char* kFooter =
    "LEFT and RIGHT are paths with an optional engine in front: hf: (Python transformers, the reference), "
    "torch: (libtorch)\n"
    "or tf: (TensorFlow). A SavedModel runs in tf, a Hugging Face folder in hf, unless told otherwise.\n"
    "\n"
    "Levels:\n"
    "  weights  every tensor, bit for bit, or exactly the rounded value; says that the sides are consistent "
    "with the rules\n"
    "  model    logits at real tokens: short, padded, 700 tokens, and gapped positions past every scaling "
    "boundary\n"
    "\n"
    "Examples:\n"
    "  tandem verify hf:./deepseek-llm-7b tf:./llm.savedmodel\n"
    "  tandem verify torch:./deepseek-llm-7b ./llm.savedmodel --tokens prompts.txt\n"
    "  tandem verify ./deepseek-llm-7b ./back --levels weights\n"
    "\n"
    "Ends 0 when equal, 1 when not.";

Status read_levels(Flags& flags) {
  flags.options.weights = flags.options.model = false;
  std::string_view rest = flags.levels;
  while (!rest.empty()) {
    const std::string_view level = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), level.size() + 1));
    if (level == "weights")
      flags.options.weights = true;
    else if (level == "model")
      flags.options.model = true;
    else
      return usage("", "--levels: \"{}\" is none of weights, model", level);
  }
  if (!flags.options.weights && !flags.options.model)
    return usage("", "--levels: name at least one of weights, model");
  return {};
}

std::string of(const EngineInfo& info) {
  std::string text;
  for (const auto& [key, value] : info) text += fmt::format("{}{}={}", text.empty() ? "" : " ", key, value);
  return text;
}

void print(const WeightsLevel& level) {
  fmt::print("weights  {}: {} of {} tensors equal",
             level.passed() ? "consistent with the rules" : "DIFFERENT", with_commas(level.equal),
             with_commas(level.compared));
  if (level.rounded) fmt::print(", {} of them exactly rounded", with_commas(level.rounded));
  fmt::print("\n");
  for (const std::string& line : level.missing) fmt::print("  {}\n", for_terminal(line));
  for (const std::string& line : level.different) fmt::print("  {}\n", for_terminal(line));
  const uint64_t odd =
      level.left_odd.nan + level.left_odd.infinite + level.right_odd.nan + level.right_odd.infinite;
  if (odd) fmt::print("  {} values are NaN or infinite\n", with_commas(odd));
}

void print(const ModelLevel& level) {
  fmt::print("model    {}\n", level.passed() ? "equal" : "DIFFERENT");
  std::vector<std::vector<std::string>> rows{
      {"  PROBE", "COMPARED", "MAX ERROR", "KL", "TOP-1", "RMS", "VERDICT"}};
  for (const ProbeResult& probe : level.probes)
    rows.push_back(
        {"  " + probe.name, with_commas(probe.metrics.compared),
         fmt::format("{:.2e}", probe.metrics.max_abs_error), fmt::format("{:.2e}", probe.metrics.max_kl),
         fmt::format("{:.2f} %", 100 * probe.metrics.top1_agreement()),
         fmt::format("{:.2f}", probe.metrics.rms()), probe.failures.empty() ? "equal" : "DIFFERENT"});
  print_table(rows);
  for (const ProbeResult& probe : level.probes)
    if (probe.exact)
      fmt::print(
          "  {}: above the fixed bar; from the contract's float64 the reference is {:.2e} and the other side "
          "{:.2e} (at most {} times)\n",
          probe.name, probe.exact->reference_max, probe.exact->other_max, kExactFactor);
  for (const ProbeResult& probe : level.probes)
    for (const std::string& line : probe.failures) fmt::print("  {}: {}\n", probe.name, line);
  const size_t shown = std::min(level.near_ties.size(), kShownNearTies);
  for (const NearTie& tie : std::span(level.near_ties).first(shown))
    fmt::print(
        "  near tie: {}, row {}, token {}, mixture layer {}: margin {:.2e}; compared with the reference's "
        "experts\n",
        tie.probe, tie.row, tie.token, tie.moe_layer, tie.margin);
  if (shown < level.near_ties.size())
    fmt::print("  and {} more near ties (margin below {:.0e})\n", with_commas(level.near_ties.size() - shown),
               level.tolerance.routing_margin);
}

void print(const VerifyReport& report) {
  fmt::print("left     {}\nright    {}\n", for_terminal(of(report.left)), for_terminal(of(report.right)));
  if (report.weights) print(*report.weights);
  if (report.model) print(*report.model);
  fmt::print("{}\n", report.equal() ? "equal" : "NOT EQUAL");
}

Result<int> verify_command(Flags& flags, bool json) {
  TANDEM_CHECK(read_levels(flags));
  TANDEM_TRY(const SideSpec left, parse_side(flags.left));
  TANDEM_TRY(const SideSpec right, parse_side(flags.right));
  flags.options.accepted_keys = {flags.accepted_keys.begin(), flags.accepted_keys.end()};
  flags.options.engine.accepted_keys = flags.options.accepted_keys;
  std::optional<Progress> progress("comparing weights");
  flags.options.progress = [&progress](uint64_t done, uint64_t total) { progress->show(done, total); };
  const Result<VerifyReport> report = verify(real_files(), left, right, flags.options);
  progress.reset();
  if (!report.ok()) return report.error();
  if (json)
    print_json(to_json(report.value()));
  else
    print(report.value());
  return report.value().equal() ? 0 : exit_code(ErrorKind::not_equal);
}

}  // namespace

void add_verify(CLI::App& app, Session& session) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      add_command(app, session, "verify", "Compare two sides: weights, and what they compute", kFooter);
  command->add_option("LEFT", flags->left, "[hf:|torch:|tf:]PATH")->required();
  command->add_option("RIGHT", flags->right, "[hf:|torch:|tf:]PATH")->required();
  command->add_option("--levels", flags->levels, "weights,model (default), or one of them");
  command->add_option("--tokens", flags->options.tokens_file,
                      "Prompts in place of the default probes: a line of ids each");
  command
      ->add_option("--atol", flags->options.atol,
                   "Largest absolute difference of logits, in place of the table's bar")
      ->check(positive_number());
  command
      ->add_option("--threads", flags->options.engine.threads,
                   "Threads of each engine (default: the framework's)")
      ->check(whole_number());
  command
      ->add_option("--timeout", flags->options.engine.timeout_s,
                   "Seconds that one call of an engine may take")
      ->check(positive_number());
  add_accepted_keys(*command, flags->accepted_keys);
  add_limits(*command, flags->options.limits);
  command->callback([flags, &session] { session.outcome = verify_command(*flags, session.json); });
}

}  // namespace tandem
