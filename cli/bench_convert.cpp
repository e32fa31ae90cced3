#include "cli/bench_convert.h"

#include "base/file.h"
#include "base/signals.h"
#include "bench/convert_bench.h"
#include "cli/convert_flags.h"
#include "cli/progress.h"

namespace tandem {
namespace {

constexpr const char* kFooter =
    "In turn, each a process of its own, --rounds times: a plain copy (the files of SRC read, as many bytes "
    "written\n"
    "as the conversion writes, in the same pieces, by as many threads, with fsync), tandem convert with the "
    "options\n"
    "given, and with --python what people do by hand (safetensors, transpose, tf.Variable, "
    "tf.saved_model.save; its\n"
    "imports are not counted). Ratios are speeds over the copy's of the same round, in brackets the 95 % "
    "bootstrap\n"
    "interval of the median. With --layout source, which copies nothing, they are over reading the files "
    "once.\n"
    "DST is a folder on the disk that is measured; what is written there is removed again.\n"
    "\n"
    "Examples:\n"
    "  tandem bench convert ./smollm2 /dev/shm --dtype float32 --no-sha256\n"
    "  tandem bench convert ./deepseek-llm-7b . --python --rounds 3 --json\n"
    "  tandem bench convert ./deepseek-llm-7b . --layout source --cold\n";

struct Flags {
  ConvertFlags convert;
  ConvertBenchOptions options;
  std::string out;
};

void print(const ConvertBench& bench) {
  fmt::print("{}, {} threads, {}{}: {} read, {} written\n", for_terminal(bench.processor), bench.threads,
             for_terminal(bench.folder), bench.cold ? ", not in the page cache" : "",
             human_bytes(bench.bytes_in), human_bytes(bench.bytes_out));
  std::vector<std::vector<std::string>> table{{"CONTENDER", "SECONDS", "SOURCE/S", "RATIO", "MEMORY"}};
  for (const ConvertContender& contender : bench.contenders) {
    if (!contender.failure.empty()) {
      table.push_back({contender.name, "-", "-", "-", for_terminal(contender.failure)});
      continue;
    }
    std::vector<double> seconds;
    uint64_t peak = 0;
    for (const Measured& run : contender.runs) {
      seconds.push_back(run.seconds);
      peak = std::max(peak, run.peak_bytes);
    }
    const Interval median = median_interval(seconds), ratio = speed_ratio(bench, contender);
    table.push_back(
        {contender.name, fmt::format("{:.2f} [{:.2f}, {:.2f}]", median.median, median.low, median.high),
         fmt::format("{:.2f} GB", static_cast<double>(bench.bytes_in) / median.median / 1e9),
         fmt::format("{:.2f} [{:.2f}, {:.2f}]", ratio.median, ratio.low, ratio.high), human_bytes(peak)});
  }
  print_table(table);
}

Result<int> command_of(Flags& flags, bool json) {
  ConvertBenchOptions& options = flags.options;
  TANDEM_TRY(options.convert, options_of(flags.convert));
  options.source = flags.convert.source;
  options.folder = flags.convert.destination;
  TANDEM_TRY(const PathKind kind, real_files().kind(options.folder));
  if (kind != PathKind::directory)
    return usage("", "{}: expected a folder on the disk to measure", options.folder);
  options.progress = show_step;
  auto bench = bench_convert(options);
  clear_step();
  if (interrupted()) return unavailable("", "stopped by a signal");
  TANDEM_CHECK(bench);
  const Json result = to_json(bench.value());
  if (!flags.out.empty()) TANDEM_CHECK(write_text(real_files(), flags.out, result.dump(1) + "\n"));
  if (json)
    print_json(result);
  else
    print(bench.value());
  return 0;
}

}  // namespace

void add_bench_convert(CLI::App& bench, Session& session) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      add_command(bench, session, "convert", "A conversion beside a copy of as many bytes", kFooter);
  add_convert_flags(*command, flags->convert, true);
  add_threads(*command, flags->convert.options.threads);
  command->add_option("--rounds", flags->options.rounds, "Rounds (default 5)")->check(positive_number());
  command->add_flag("--cold", flags->options.cold, "Drop SRC's files from the page cache before each run");
  command->add_flag("--python", flags->options.python, "Time the Python route too");
  command->add_option("--out", flags->out, "Write the JSON to a file too");
  command->callback([flags, &session] { session.outcome = command_of(*flags, session.json); });
}

}  // namespace tandem
