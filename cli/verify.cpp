// tandem verify: do two sides hold and compute the same?

#include <cmath>

#include "base/staged_file.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "verify/certificate.h"
#include "verify/report.h"

namespace tandem {
namespace {

constexpr size_t kShownNearTies = 10;
constexpr size_t kShownWorst = 3;
constexpr size_t kShownDifferences = 10;
constexpr uint64_t kMaxPrompts = 1'000'000;

struct Flags {
  std::string left, right;
  std::string levels = "weights,layer,module,model";
  std::vector<std::string> accepted_keys;
  std::string certificate;
  std::string report_file;  ///< empty: none
  VerifyOptions options;
};

constexpr const char* kFooter =
    "LEFT and RIGHT are paths with an optional engine in front: hf: (Python transformers, the reference), "
    "torch: (libtorch),\n"
    "tf: (TensorFlow) or keras_hub: (a Hugging Face folder as KerasHub imports it). A SavedModel runs in tf, "
    "a "
    "Hugging Face\n"
    "folder in hf, unless told otherwise. dump:FILE is a side that `tandem record` wrote down on another "
    "machine: its prompts\n"
    "are compared, and weights are not.\n"
    "\n"
    "Levels:\n"
    "  weights     every tensor, bit for bit, or exactly the rounded value; says that the sides are "
    "consistent "
    "with the rules\n"
    "  layer       each layer fed the reference's own input, every tap inside; bars derived from the "
    "contract "
    "in float64\n"
    "  module      hidden states down the stack, and how the error grows\n"
    "  model       logits at real tokens: short, padded, 700 tokens, gapped positions past every scaling "
    "boundary, and a text\n"
    "              (where a side has a tokenizer.json)\n"
    "  generation  each side continues 100 prompts of random ids, and some of text, by 20 tokens, the most "
    "likely one each time.\n"
    "              Equal if all continuations are, but for near ties, which are listed. Not by default: it "
    "takes a while\n"
    "\n"
    "Examples:\n"
    "  tandem verify hf:./deepseek-llm-7b tf:./llm.savedmodel\n"
    "  tandem verify torch:./deepseek-llm-7b ./llm.savedmodel --tokens prompts.txt\n"
    "  tandem verify hf:./deepseek-llm-7b tf:./llm.savedmodel --report proof.html\n"
    "  tandem verify ./deepseek-llm-7b ./back --levels weights\n"
    "  tandem verify hf:./deepseek-llm-7b keras_hub:./deepseek-llm-7b   does KerasHub import it right?\n"
    "  tandem verify hf:./deepseek-llm-7b tf:./llm.savedmodel --levels generation --prompts 200\n"
    "  tandem verify hf:./deepseek-llm-7b tf:./llm.savedmodel --certificate out.json\n"
    "                                             then tandem sign out.json --key private.pem\n"
    "  tandem verify dump:llm.dump tf:./llm.savedmodel\n"
    "  tandem verify hf:./deepseek-v3 tf:./v3.savedmodel --stream\n"
    "\n"
    "Ends 0 when equal, 1 when not.";

std::string level_names() {
  std::vector<std::string_view> names;
  for (const LevelRow& level : kLevels) names.push_back(level.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

Status read_levels(Flags& flags) {
  for (const LevelRow& level : kLevels) flags.options.*level.wanted = false;
  std::string_view rest = flags.levels;
  if (rest.empty()) return usage("", "--levels: name at least one of {}", level_names());
  while (!rest.empty()) {
    const std::string_view name = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    const auto level = std::find_if(std::begin(kLevels), std::end(kLevels),
                                    [&](const LevelRow& row) { return row.name == name; });
    if (level == std::end(kLevels)) return usage("", "--levels: \"{}\" is none of {}", name, level_names());
    flags.options.*level->wanted = true;
  }
  return {};
}

std::string of(const EngineInfo& info) {
  std::string text;
  for (const auto& [key, value] : info)
    if (key != "taps") text += fmt::format("{}{}={}", text.empty() ? "" : " ", key, value);
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

/// The measures that no column has, over all probes.
void print_total(const Metrics& total) {
  fmt::print("  all: rms error {:.2e}, nmse {:.2e}, 1 - cosine {:.2e}, top-5 {:.2f} %, top-10 {:.2f} %\n",
             total.rms_error(), total.nmse(), 1 - total.cosine(), 100 * total.top_k_agreement(0),
             100 * total.top_k_agreement(1));
  fmt::print("       loss {:.4f} and {:.4f}, difference {:.2e}\n", total.loss(), total.loss_other(),
             std::abs(total.loss_difference()));
}

void print_skipped(const std::vector<std::string>& skipped) {
  for (const std::string& line : skipped) fmt::print("  skipped: {}\n", for_terminal(line));
}

/// The taps out of line, the worst first few.
void print_failures(const std::vector<const TapResult*>& failed) {
  for (const TapResult* tap : std::span(failed).first(std::min(failed.size(), kShownDifferences)))
    fmt::print("  {}: {}\n", for_terminal(tap->tap),
               for_terminal(tap->failures.empty() ? "nothing was compared" : tap->failures[0]));
  if (failed.size() > kShownDifferences)
    fmt::print("  and {} more taps, in --json\n", with_commas(failed.size() - kShownDifferences));
}

void print(const LayerLevel& level) {
  size_t equal = 0, parts = 0, taps = 0;
  std::vector<const TapResult*> failed;
  uint64_t near_ties = 0;
  for (const LayerResult& layer : level.layers) {
    if (layer.hidden()) continue;
    ++parts;
    equal += layer.equal();
    for (const TapResult& tap : layer.taps) {
      taps += !tap.hidden;
      if (!tap.equal()) failed.push_back(&tap);
    }
    if (layer.routing) near_ties += layer.routing->near_ties.size();
  }
  fmt::print("layer    {}: {} of {} parts equal, {} taps, {} values; each on {}\n",
             level.passed() ? "equal" : "DIFFERENT", equal, parts, taps, with_commas(level.values()),
             level.own_inputs ? "its side's own input" : "the reference's input");
  if (near_ties) fmt::print("  {} experts chosen by a near tie\n", with_commas(near_ties));
  print_failures(failed);
}

void print(const ModuleLevel& level) {
  std::vector<const TapResult*> failed;
  for (const TapResult& tap : level.taps)
    if (!tap.equal()) failed.push_back(&tap);
  const DepthError& last = level.depths.back();
  fmt::print("module   {}: {} depths; error at the last {:.1e} of its RMS (reference {:.1e}), growth {}\n",
             level.passed() ? "equal" : "DIFFERENT", level.taps.size(), last.other, last.reference,
             name(level.growth));
  print_failures(failed);
}

void print(const Divergence& divergence) {
  fmt::print("first divergence\n  tap    {}\n", for_terminal(divergence.tap));
  if (!divergence.op.empty())
    fmt::print("  op     {} {} in {}\n", divergence.op, for_terminal(divergence.value),
               for_terminal(divergence.module.empty() ? divergence.place : divergence.module));
  fmt::print("  cause  {}{}\n", divergence.cause,
             divergence.words.empty() ? fmt::format(" ({} known faults tried)", divergence.tried.size())
                                      : ": " + for_terminal(divergence.words));
  for (const std::string& line : divergence.also) fmt::print("         {}\n", for_terminal(line));
}

/// A token's piece behind its place or id, where it is known.
std::string quoted(const std::string& piece) {
  return piece.empty() ? std::string() : fmt::format(" \"{}\"", for_terminal(piece));
}

/// Where a level that failed is worst.
void print(const TokenResult& token) {
  fmt::print("  worst: {}, row {}, token {}{}, position {}: KL {:.2e}", token.probe, token.row, token.token,
             quoted(token.piece), token.position, token.kl);
  if (token.reference_id >= 0 && token.reference_id != token.other_id)
    fmt::print("; most likely next {}{} in the reference, {}{} on the other side", token.reference_id,
               quoted(token.reference_piece), token.other_id, quoted(token.other_piece));
  fmt::print("\n");
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
  print_total(level.total);
  print_skipped(level.skipped);
  for (const ProbeResult& probe : level.probes)
    if (probe.exact)
      fmt::print(
          "  {}: above the fixed bar; from the contract's float64 the reference is {:.2e} and the other side "
          "{:.2e} (at most {} times)\n",
          probe.name, probe.exact->reference_max, probe.exact->other_max, kExactFactor);
  for (const ProbeResult& probe : level.probes)
    for (const std::string& line : probe.failures) fmt::print("  {}: {}\n", probe.name, line);
  if (!level.passed())
    for (const TokenResult& token :
         std::span(level.worst_tokens).first(std::min(level.worst_tokens.size(), kShownWorst)))
      print(token);
  const size_t shown = std::min(level.near_ties.size(), kShownNearTies);
  for (const NearTie& tie : std::span(level.near_ties).first(shown))
    fmt::print(
        "  near tie: {}, row {}, token {}{}, mixture layer {}: margin {:.2e}; compared with the reference's "
        "experts\n",
        tie.probe, tie.row, tie.token, quoted(tie.piece), tie.moe_layer, tie.margin);
  if (shown < level.near_ties.size())
    fmt::print("  and {} more near ties (margin below {:.0e})\n", with_commas(level.near_ties.size() - shown),
               level.tolerance.routing_margin);
}

/// A token's id, and its text where that is known.
std::string token(int32_t id, const std::string& text) {
  std::string line;
  for (const char c : text) line += c == '\n' ? std::string("\\n") : std::string{c};
  return text.empty() ? fmt::format("{}", id) : fmt::format("{} \"{}\"", id, for_terminal(line));
}

void print(const FirstDifference& difference) {
  fmt::print("  {}: {} ({} ids), token {}", name(difference.parting), difference.prompt,
             difference.prompt_tokens, difference.step + 1);
  if (difference.parting == Parting::not_finite) {
    fmt::print(": a logit is NaN or infinite\n");
    return;
  }
  fmt::print(
      ": {} in the reference, {} on the other side; margins {:.2e} and {:.2e}, near ties up to {:.2e}\n",
      token(difference.reference_id, difference.reference_text),
      token(difference.other_id, difference.other_text), difference.reference_margin, difference.other_margin,
      difference.bar);
}

void print(const GenerationLevel& level) {
  fmt::print(
      "generation  {}: {} of {} prompts equal in full, {} part at a near tie, {} otherwise; {} tokens "
      "compared",
      level.passed() ? "equal" : "DIFFERENT", with_commas(level.exact), with_commas(level.prompts),
      with_commas(level.near_ties), with_commas(level.faults), with_commas(level.tokens));
  if (level.bleu) fmt::print("; BLEU-4 {:.4f}", *level.bleu);
  fmt::print("\n");
  print_skipped(level.skipped);
  for (const std::string& line : level.failures) fmt::print("  {}\n", for_terminal(line));
  const size_t shown = std::min(level.differences.size(), kShownDifferences);
  for (const FirstDifference& difference : std::span(level.differences).first(shown)) print(difference);
  if (shown < level.differences.size())
    fmt::print("  and {} more, in --json\n", with_commas(level.differences.size() - shown));
}

void print(const VerifyReport& report) {
  fmt::print("left     {}\nright    {}\n", for_terminal(of(report.left)), for_terminal(of(report.right)));
  if (report.weights) print(*report.weights);
  if (report.layer) print(*report.layer);
  if (report.module) print(*report.module);
  if (report.model) print(*report.model);
  if (report.generation) print(*report.generation);
  if (report.divergence) print(*report.divergence);
  for (const std::string& note : report.notes) fmt::print("note: {}\n", for_terminal(note));
  if (report.verdict() == Verdict::reference_disagrees)
    fmt::print("NOT EQUAL: contract and reference disagree\n");
  else
    fmt::print("{}\n", report.equal() ? "equal" : "NOT EQUAL");
}

Result<VerifyReport> verify_sides(const Flags& flags, const SideSpec& left, const SideSpec& right) {
  if (flags.certificate.empty()) return verify(real_files(), left, right, flags.options);
  Progress hashing("hashing");
  const CertifyOptions certify{flags.certificate, TANDEM_VERSION,
                               [&hashing](uint64_t done, uint64_t total) { hashing.show(done, total); }};
  return verify_and_certify(real_files(), left, right, flags.options, certify);
}

Result<int> verify_command(Flags& flags, bool json) {
  TANDEM_CHECK(read_levels(flags));
  if (flags.options.random_prompts > kMaxPrompts)
    return usage("", "--prompts: {} is above {}", flags.options.random_prompts, kMaxPrompts);
  TANDEM_TRY(const SideSpec left, parse_side(flags.left));
  TANDEM_TRY(const SideSpec right, parse_side(flags.right));
  flags.options.accepted_keys = {flags.accepted_keys.begin(), flags.accepted_keys.end()};
  flags.options.engine.accepted_keys = flags.options.accepted_keys;
  std::optional<StagedFile> page;
  if (!flags.report_file.empty()) {
    TANDEM_TRY(StagedFile made, StagedFile::make(real_files(), flags.report_file));
    page.emplace(std::move(made));
  }
  std::optional<Progress> progress("comparing weights");
  flags.options.progress = [&progress](uint64_t done, uint64_t total) { progress->show(done, total); };
  const Result<VerifyReport> report = verify_sides(flags, left, right);
  progress.reset();
  if (!report.ok()) return report.error();
  if (page) {
    TANDEM_CHECK(page->commit(report_page(to_json(report.value()))));
  }
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
  command->add_option("LEFT", flags->left, "[hf:|torch:|tf:|keras_hub:]PATH or dump:FILE")->required();
  command->add_option("RIGHT", flags->right, "[hf:|torch:|tf:|keras_hub:]PATH or dump:FILE")->required();
  command->add_option("--levels", flags->levels,
                      fmt::format("Some of {} (default: {})", level_names(), flags->levels));
  command->add_flag(
      "!--no-float64", flags->options.float64,
      "Do not run the contract in float64: faster, fixed bars instead of derived ones, no cause");
  command->add_option("--report", flags->report_file,
                      "Write a page with the verdict, tables and charts to this file");
  CLI::Option* tokens =
      command->add_option("--tokens", flags->options.tokens_file,
                          "Prompts in place of the default probes and prompts: a line of ids each");
  command
      ->add_option("--prompts", flags->options.random_prompts,
                   "Prompts of random ids that the level generation continues (default 100)")
      ->check(whole_number())
      ->excludes(tokens);
  command
      ->add_option("--max-new-tokens", flags->options.max_new_tokens,
                   "Tokens by which it continues each (default 20)")
      ->check(whole_number());
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
  command->add_option("--certificate", flags->certificate,
                      "Write what was compared, how and with what result, with the hash of every file");
  command->add_flag(
      "--stream", flags->options.engine.stream,
      "For models larger than memory: a layer at a time on both sides. Same figures; weights are "
      "read again for each run");
  add_accepted_keys(*command, flags->accepted_keys);
  add_limits(*command, flags->options.limits);
  command->callback([flags, &session] { session.outcome = verify_command(*flags, session.json); });
}

}  // namespace tandem
