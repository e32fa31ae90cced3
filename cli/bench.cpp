// tandem bench: what this machine can do, and how near to it each framework comes on one model.

#include <stdlib.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>

#include "base/file.h"
#include "base/signals.h"
#include "bench/infer.h"
#include "bench/page.h"
#include "bench/prepare.h"
#include "cli/bench_convert.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "convert/convert.h"
#include "convert/open_model.h"

namespace tandem {
namespace {

constexpr const char* kFooter =
    "Examples:\n"
    "  tandem bench limits                                     memory, arithmetic and disk of this machine\n"
    "  tandem bench infer ./smollm2                            TensorFlow and PyTorch on one model\n"
    "  tandem bench prepare ./smollm2 ./smollm2.bench          its files for onnxruntime, llama.cpp, "
    "tf-xla-bf16\n";

constexpr const char* kLimitsFooter =
    "The best of many passes: all threads at once sum memory that no cache holds (on pages of 2 MiB), or\n"
    "multiply and add in registers, about a millisecond each. A median far below the best means that the\n"
    "machine was doing other things as well. Then a file without a name in --folder, written with fsync and\n"
    "read after the page cache has dropped it (a virtual machine's host may still hold it).\n"
    "\n"
    "Examples:\n"
    "  tandem bench limits\n"
    "  tandem bench limits --threads 1 --folder /data --json\n";

constexpr const char* kInferFooter =
    "MODEL is a Hugging Face folder. Each contender is a process of its own, loads it in float32 and times\n"
    "itself; all take turns, a round each, so that what else the machine does meets all alike. A contender "
    "is\n"
    "timed only where its logits agree with the first contender's, and its greedy tokens do until a near "
    "tie.\n"
    "Ratios are speeds over the first contender's of the same round: above 1 is faster. In brackets: the 95 "
    "%\n"
    "bootstrap interval of the median. --load times a process from its start, through loading the model, to "
    "the\n"
    "first token, anew in each round, with the files in the page cache. Of --load, --prefill and --decode "
    "what\n"
    "is given is timed; without any, --prefill 128,512 --decode 128+512. onnxruntime, llama.cpp and "
    "tf-xla-bf16\n"
    "read what `tandem bench prepare` makes; keras-hub needs `make venv-keras-hub`.\n"
    "\n"
    "Examples:\n"
    "  tandem bench infer ./smollm2\n"
    "  tandem bench infer ./smollm2 --contenders transformers,tf --prefill 512 --decode 128+64 --rounds 9\n"
    "  tandem bench infer ./smollm2 --prepared ./smollm2.bench --contenders onnxruntime,llama.cpp,tf --load "
    "16\n"
    "  tandem bench infer ./v3-4 --graph ./v3-4.savedmodel --threads 2 --report v3-4.html\n";

constexpr const char* kPrepareFooter =
    "Makes the new folder FOLDER with what onnxruntime and llama.cpp read, each by its own tool in the\n"
    "environment that `make venv-bench` installs: onnx/ (optimum-onnx, float32, with a cache), f32.gguf,\n"
    "bf16.gguf and q8_0.gguf (convert_hf_to_gguf.py of the llama.cpp that is timed); and with what "
    "tf-xla-bf16\n"
    "reads, by this program: bf16.savedmodel (convert --layout source --matmul-precision bfloat16). What a "
    "tool\n"
    "cannot make is told, and the rest stays. Then: tandem bench infer MODEL --prepared FOLDER.\n"
    "\n"
    "Examples:\n"
    "  tandem bench prepare ./smollm2 ./smollm2.bench\n"
    "  tandem bench prepare ./smollm2 ./smollm2.bench --contenders onnxruntime,llama.cpp --json\n"
    "  tandem bench prepare ./smollm2 ./smollm2.bf16 --contenders tf-xla-bf16\n";

struct LimitFlags {
  LimitOptions options;
};

struct PrepareFlags {
  std::string model, out;
  PrepareOptions options;
};

struct InferFlags {
  std::string model, graph, prepared, out, page;
  std::vector<std::string> contenders{"transformers", "torch-compile", "tf", "tf-xla"};
  std::vector<uint64_t> load, prefill, batches{1, 8};
  std::vector<std::string> decode;
  InferOptions options;
};

std::string per_second(double value, const char* unit) {
  return fmt::format("{:.1f} G{}/s", value / 1e9, unit);
}

Result<int> limits_command(LimitFlags& flags, bool json) {
  TANDEM_TRY(const Limits limits, measure_limits(flags.options));
  if (json) {
    print_json(to_json(limits));
    return 0;
  }
  fmt::print("processor   {}, {}, {} threads\n", for_terminal(limits.processor), limits.instructions,
             limits.threads);
  fmt::print("memory      {} read; median pass {}\n", per_second(limits.memory_bytes_per_s, "B"),
             per_second(limits.memory_median, "B"));
  fmt::print("arithmetic  {} of float32; median pass {}\n", per_second(limits.float32_per_s, "FLOP"),
             per_second(limits.float32_median, "FLOP"));
  fmt::print("SHA-256     {} by one thread\n", per_second(limits.sha256_bytes_per_s, "B"));
  if (limits.disk_read_bytes_per_s > 0)
    fmt::print("disk        {} written, {} read\n", per_second(limits.disk_write_bytes_per_s, "B"),
               per_second(limits.disk_read_bytes_per_s, "B"));
  return 0;
}

/// "128+512": a prompt and the steps after it.
Result<Scenario> decode_named(const std::string& text, uint64_t batch) {
  Scenario scenario{Measure::decode, batch, 0, 0};
  const size_t plus = text.find('+');
  const auto number = [](std::string_view digits, uint64_t& value) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc() && end == digits.data() + digits.size() && value > 0 && value < (1u << 20);
  };
  if (plus == text.npos || !number(std::string_view(text).substr(0, plus), scenario.prompt) ||
      !number(std::string_view(text).substr(plus + 1), scenario.steps))
    return usage("", "--decode {}: expected PROMPT+STEPS, as 128+512", text);
  return scenario;
}

Result<std::vector<Scenario>> scenarios_of(const InferFlags& flags) {
  std::vector<Scenario> scenarios;
  for (const uint64_t prompt : flags.load) scenarios.push_back({Measure::load, 1, prompt, 0});
  for (const uint64_t prompt : flags.prefill) scenarios.push_back({Measure::prefill, 1, prompt, 0});
  for (const std::string& text : flags.decode)
    for (const uint64_t batch : flags.batches) {
      TANDEM_TRY(scenarios.emplace_back(), decode_named(text, batch));
    }
  for (const Scenario& scenario : scenarios)
    if (scenario.prompt == 0 || scenario.batch == 0)
      return usage("", "--load, --prefill and --batch: expected numbers from 1");
  return scenarios;
}

/// A folder that goes when the command ends.
class Scratch {
 public:
  static Result<Scratch> make() {
    std::string name = (std::filesystem::temp_directory_path() / "tandem-bench-XXXXXX").string();
    if (!mkdtemp(name.data())) return io_error("make a folder", name, errno);
    return Scratch(name);
  }
  Scratch(Scratch&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  Scratch& operator=(Scratch&&) = delete;
  ~Scratch() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  explicit Scratch(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

std::string with_interval(const Interval& interval, const char* format) {
  return fmt::format(fmt::runtime(format), interval.median, interval.low, interval.high);
}

void print(const InferReport& report) {
  fmt::print("machine     {}, {}, {} threads; memory {}, arithmetic {}\n",
             for_terminal(report.limits.processor), report.limits.instructions, report.threads,
             per_second(report.limits.memory_bytes_per_s, "B"),
             per_second(report.limits.float32_per_s, "FLOP"));
  for (const auto& [name, why] : report.not_started)
    fmt::print("not timed   {}: {}\n", name, for_terminal(why));
  std::vector<std::vector<std::string>> table{
      {"SCENARIO", "CONTENDER", "TOKENS/S", "RATIO", "OF THE LIMIT", "MAX ERROR", "MEMORY"}};
  const Json json = to_json(report);
  for (size_t i = 0; i < report.results.size(); ++i) {
    const Scenario& scenario = report.results[i].scenario;
    const auto& results = report.results[i].results;
    for (size_t j = 0; j < results.size(); ++j) {
      const InferResult& result = results[j];
      const std::string first = j == 0 ? scenario.name() : "";
      if (!result.failure.empty()) {
        table.push_back({first, result.contender, "-", "-", "-", "-", for_terminal(result.failure)});
        continue;
      }
      const Json& row = json["scenarios"][i]["results"][j];
      const bool load = scenario.measure == Measure::load;
      table.push_back({first, result.contender,
                       load ? with_interval(median_interval(result.seconds), "{:.2f} s [{:.2f}, {:.2f}]")
                            : with_interval(tokens_per_s(scenario, result), "{:.1f} [{:.1f}, {:.1f}]"),
                       with_interval(speed_ratio(result, results[0]), "{:.2f} [{:.2f}, {:.2f}]"),
                       load ? "-" : fmt::format("{:.2f}", row["share_of_limit"].get<double>()),
                       fmt::format("{:.1e}", result.max_abs_error),
                       human_bytes(report.peak_bytes.at(result.contender))});
    }
  }
  print_table(table);
}

Result<int> prepare_command(PrepareFlags& flags, bool json) {
  TANDEM_TRY(const OpenedModel model, open_model(real_files(), flags.model, {}));
  if (model.format != ModelFormat::hf_folder)
    return usage("", "{} is no Hugging Face folder: the tools read one", flags.model);
  flags.options.progress = show_step;
  auto prepared = bench_prepare(flags.model, flags.out, flags.options);
  clear_step();
  TANDEM_TRY(const PrepareReport report, std::move(prepared));
  if (json) {
    print_json(to_json(report));
    return 0;
  }
  for (const auto& [name, seconds] : report.made)
    fmt::print("made      {}/{} in {:.1f} s\n", for_terminal(report.folder), name, seconds);
  for (const auto& [name, why] : report.not_made) fmt::print("not made  {}: {}\n", name, for_terminal(why));
  return 0;
}

Result<int> infer_command(InferFlags& flags, bool json) {
  if (flags.load.empty() && flags.prefill.empty() && flags.decode.empty()) {
    flags.prefill = {128, 512};
    flags.decode = {"128+512"};
  }
  TANDEM_TRY(flags.options.scenarios, scenarios_of(flags));
  flags.options.contenders = flags.contenders;
  TANDEM_TRY(const OpenedModel model, open_model(real_files(), flags.model, {}));
  if (model.format != ModelFormat::hf_folder)
    return usage("", "{} is no Hugging Face folder: every contender reads one", flags.model);
  TANDEM_TRY(const Scratch scratch, Scratch::make());
  if (flags.graph.empty()) {
    flags.graph = scratch.path() + "/model.savedmodel";
    ConvertOptions convert_options;
    convert_options.dtype = DType::f32;
    TANDEM_CHECK(convert(real_files(), flags.model, flags.graph, convert_options));
  }
  flags.options.progress = show_step;
  const auto vocab = model.config.value("vocab_size", uint64_t{0});
  auto report = bench_infer({flags.model, flags.graph, flags.prepared}, vocab, flags.options);
  clear_step();
  TANDEM_CHECK(report);
  report.value().cost = cost_of(*model.folder, model.config);
  const Json result = to_json(report.value());
  if (!flags.out.empty()) {
    TANDEM_CHECK(write_text(real_files(), flags.out, result.dump(1) + "\n"));
  }
  if (!flags.page.empty()) {
    TANDEM_CHECK(write_text(real_files(), flags.page, bench_page(result)));
  }
  if (json)
    print_json(result);
  else
    print(report.value());
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, Session& session) {
  CLI::App* bench = add_command(app, session, "bench",
                                "How fast: this machine's limits, and frameworks on one model", kFooter);
  bench->require_subcommand(1);

  auto limits = std::make_shared<LimitFlags>();
  CLI::App* command =
      add_command(*bench, session, "limits", "What this machine can do at most", kLimitsFooter);
  command->add_option("--threads", limits->options.threads, "Threads (default: as many as processors)")
      ->check(whole_number());
  command->add_option("--folder", limits->options.folder,
                      "A folder on the disk that is measured (default .)");
  command->callback([limits, &session] { session.outcome = limits_command(*limits, session.json); });

  add_bench_convert(*bench, session);

  auto prepare = std::make_shared<PrepareFlags>();
  command = add_command(*bench, session, "prepare",
                        "The files that onnxruntime, llama.cpp and tf-xla-bf16 read", kPrepareFooter);
  command->add_option("MODEL", prepare->model, "Hugging Face folder")->required();
  command->add_option("FOLDER", prepare->out, "The folder that is made")->required();
  command
      ->add_option("--contenders", prepare->options.contenders,
                   "Whose files are made (default: all that read such)")
      ->delimiter(',');
  command->callback([prepare, &session] { session.outcome = prepare_command(*prepare, session.json); });

  auto infer = std::make_shared<InferFlags>();
  command = add_command(*bench, session, "infer", "Contenders on one model, in turn", kInferFooter);
  command->add_option("MODEL", infer->model, "Hugging Face folder")->required();
  command->add_option("--graph", infer->graph, "A SavedModel of it in float32 (default: made, and removed)");
  command->add_option("--prepared", infer->prepared,
                      "The folder that `tandem bench prepare` made of it, for onnxruntime, llama.cpp and "
                      "tf-xla-bf16");
  std::string names;
  for (const ContenderRow& row : contenders()) names += fmt::format("\n  {:<14} {}", row.name, row.help);
  command
      ->add_option("--contenders", infer->contenders,
                   "Who takes part, the first being what ratios are to (default "
                   "transformers,torch-compile,tf,tf-xla):" +
                       names)
      ->delimiter(',');
  command
      ->add_option("--load", infer->load,
                   "Tokens of prompts to whose first token a process is timed from its start")
      ->delimiter(',');
  command->add_option("--prefill", infer->prefill, "Tokens of prompts that are timed")->delimiter(',');
  command->add_option("--decode", infer->decode, "PROMPT+STEPS that are timed")->delimiter(',');
  command->add_option("--batch", infer->batches, "Rows that are decoded at once (default 1,8)")
      ->delimiter(',');
  command->add_option("--threads", infer->options.threads, "Threads of each (default: as many as processors)")
      ->check(whole_number());
  command->add_option("--rounds", infer->options.rounds, "Rounds (default 5)")->check(positive_number());
  command->add_option("--out", infer->out, "Write the JSON to a file too");
  command->add_option("--report", infer->page, "Write a page to look at: speeds, and a roofline");
  command->callback([infer, &session] { session.outcome = infer_command(*infer, session.json); });
}

}  // namespace tandem
