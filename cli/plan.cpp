// tandem plan, run-task, finalize: a conversion as tasks that processes and machines share.

#include <charconv>
#include <cstdlib>
#include <filesystem>

#include "bench/limits.h"
#include "cli/convert_flags.h"
#include "cli/progress.h"
#include "convert/tasks.h"

namespace tandem {
namespace {

struct PlanFlags {
  ConvertFlags convert;
  std::string out, limits;
};

struct TaskFlags {
  std::string plan, task;
  uint64_t of = 0;
  unsigned threads = default_threads();
};

struct FinalizeFlags {
  std::string plan;
  bool check = false;
};

constexpr const char* kPlanFooter =
    "Reads headers only and writes nothing but the plan: what a conversion would make, how much memory and "
    "disk it takes,\n"
    "and its tasks, one a file of weights. The options are those of convert, and go into the plan. "
    "docs/scale.md has the\n"
    "whole story, with scripts for Slurm and Kubernetes.\n"
    "\n"
    "--limits adds how long one process takes on the machine of that file (tandem bench limits --json), or "
    "on this one with\n"
    "--limits measure: some seconds, and a file of 256 MiB beside DST while it is measured.\n"
    "\n"
    "Examples:\n"
    "  tandem plan ./deepseek-v3 ./v3.savedmodel\n"
    "  tandem plan ./deepseek-v3 ./v3.savedmodel --dtype bfloat16 --max-shard-size 20GB --out v3.plan.json\n"
    "  tandem plan ./deepseek-v3 ./v3.savedmodel --limits cluster.json\n"
    "  tandem run-task v3.plan.json --task 0/2 & tandem run-task v3.plan.json --task 1/2 & wait\n"
    "  tandem finalize v3.plan.json\n";

constexpr const char* kTaskFooter =
    "Does the tasks of one share, those that are not done yet. --task 3/16 is the fourth of 16 shares (from "
    "0): tasks 3, 19,\n"
    "35, ... Without --task the share is SLURM_ARRAY_TASK_ID or JOB_COMPLETION_INDEX, of as many as "
    "SLURM_ARRAY_TASK_COUNT\n"
    "or --of say. A share may be done twice, by two processes at once, after a kill, in any order. The "
    "source "
    "must be what\n"
    "it was when it was planned.\n"
    "\n"
    "Ends 75 where another process was at work on a task just then (try again), 65 where trying again cannot "
    "help.\n"
    "\n"
    "Examples:\n"
    "  tandem run-task v3.plan.json --task 3/16\n"
    "  tandem run-task v3.plan.json --task 0/1                   all of it\n"
    "  sbatch --array=0-15 --wrap 'tandem run-task v3.plan.json'\n";

constexpr const char* kFinalizeFooter =
    "Checks that all tasks are done, writes index, graph and side files, and puts the output in place. Ends "
    "66 "
    "and names\n"
    "the tasks that are not done.\n"
    "\n"
    "Examples:\n"
    "  tandem finalize v3.plan.json\n"
    "  tandem finalize v3.plan.json --check        reads every file again first, and compares its SHA-256\n";

/// "48 s", "35 min", "7.5 h"
std::string in_words(double seconds) {
  if (seconds < 120) return fmt::format("{:.{}f} s", seconds, seconds < 10 ? 1 : 0);
  if (seconds < 7200) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

void print(const ConversionPlan& plan) {
  std::vector<std::vector<std::string>> rows{{"TASK", "FILE", "TENSORS", "BYTES"}};
  constexpr size_t kShown = 20;
  const size_t tasks = plan.tasks.size();
  for (size_t i = 0; i < tasks; ++i) {
    if (tasks > kShown && i == kShown - 1) rows.push_back({"...", "", "", ""});
    if (tasks > kShown && i >= kShown - 1 && i + 1 < tasks) continue;
    const PlannedTask& task = plan.tasks[i];
    rows.push_back({std::to_string(i), task.file, with_commas(task.tensors), human_bytes(task.bytes)});
  }
  print_table(rows);
  fmt::print("{} {}, {}; disk {}; memory of one process {}\n", with_commas(tasks),
             tasks == 1 ? "task" : "tasks", human_bytes(plan.total_bytes()), human_bytes(plan.disk()),
             human_bytes(plan.peak_memory()));
  if (!plan.time) return;
  fmt::print("about {} of one process: reading {}, writing {}; hashing beside it {}\n",
             in_words(plan.time->all()), in_words(plan.time->read), in_words(plan.time->write),
             in_words(plan.time->hash));
}

/// The speed of the machine of --limits: a file, or this one.
Result<MachineSpeed> speed_of(const PlanFlags& flags) {
  Limits limits;
  if (flags.limits == "measure") {
    LimitOptions options;
    options.disk_bytes = 256 << 20;
    options.folder = std::filesystem::path(absolute_path(flags.convert.destination)).parent_path().string();
    TANDEM_TRY(limits, measure_limits(options));
  } else {
    TANDEM_TRY(const std::string text, read_text(real_files(), flags.limits));
    auto read = limits_from_text(text);
    if (!read.ok()) return std::move(read).error().at(flags.limits);
    limits = std::move(read).value();
  }
  return MachineSpeed{limits.disk_read_bytes_per_s, limits.disk_write_bytes_per_s, limits.sha256_bytes_per_s};
}

Result<int> plan_command(const PlanFlags& flags, bool json) {
  TANDEM_TRY(const ConvertOptions options, options_of(flags.convert));
  TANDEM_TRY(ConversionPlan plan,
             plan_tasks(real_files(), flags.convert.source, flags.convert.destination, options));
  if (!flags.limits.empty()) {
    TANDEM_TRY(const MachineSpeed speed, speed_of(flags));
    plan.time = estimated_time(plan, speed);
  }
  const std::string text = to_json(plan).dump(1) + "\n";
  if (!flags.out.empty()) {
    Status written = replace_text(real_files(), flags.out, text);
    if (!written.ok()) return cannot_create(std::move(written).error());
  }
  if (json)
    fmt::print("{}", text);
  else
    print(plan);
  return 0;
}

std::optional<uint64_t> number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return {};
  return value;
}

/// A number in the environment; nothing if it is not set. Errors: usage for anything else.
Result<std::optional<uint64_t>> from_environment(const char* name) {
  const char* text = std::getenv(name);
  if (!text) return std::optional<uint64_t>();
  if (const auto value = number(text)) return value;
  return usage("", "{} is \"{}\", no whole number", name, text);
}

Result<TaskShare> share_of(const TaskFlags& flags) {
  if (!flags.task.empty()) {
    const size_t slash = flags.task.find('/');
    const auto index = number(std::string_view(flags.task).substr(0, slash));
    const auto count =
        slash == flags.task.npos ? std::nullopt : number(std::string_view(flags.task).substr(slash + 1));
    if (!index || !count) return usage("", "--task {}: expected I/N, as 0/16", flags.task);
    return TaskShare{*index, *count, flags.threads};
  }
  TANDEM_TRY(auto index, from_environment("SLURM_ARRAY_TASK_ID"));
  TANDEM_TRY(auto count, from_environment("SLURM_ARRAY_TASK_COUNT"));
  if (!index) {
    count.reset();
    TANDEM_TRY(index, from_environment("JOB_COMPLETION_INDEX"));
  }
  if (flags.of) count = flags.of;
  if (!index || !count)
    return usage("", "which share? --task I/N, or SLURM_ARRAY_TASK_ID or JOB_COMPLETION_INDEX with --of N")
        .because("see tandem run-task --help");
  return TaskShare{*index, *count, flags.threads};
}

std::string list(const std::vector<size_t>& tasks) {
  constexpr size_t kShown = 20;
  const std::span<const size_t> first(tasks.data(), std::min(tasks.size(), kShown));
  return fmt::format("{}{}", fmt::join(first, ", "), tasks.size() > kShown ? ", ..." : "");
}

Result<int> run_task_command(const TaskFlags& flags, bool json) {
  TANDEM_TRY(const TaskShare share, share_of(flags));
  TANDEM_TRY(const std::string plan, read_text(real_files(), flags.plan));
  std::optional<Progress> progress("converting");
  const auto report =
      run_tasks(real_files(), plan, share, [&progress](uint64_t done, uint64_t total) -> Status {
        progress->show(done, total);
        return {};
      });
  progress.reset();
  if (!report.ok()) return Error(report.error()).at(flags.plan);
  const TasksReport& tasks = report.value();
  if (json) {
    print_json(to_json(tasks));
  } else {
    fmt::print("share {}/{} of {} tasks: {} made ({}), {} done before\n", share.index, share.count,
               tasks.tasks, tasks.made.size(), human_bytes(tasks.bytes), tasks.there.size());
    if (!tasks.elsewhere.empty()) fmt::print("another process is at work on {}\n", list(tasks.elsewhere));
  }
  return tasks.elsewhere.empty() ? 0 : exit_code(ErrorKind::locked);
}

Result<int> finalize_command(const FinalizeFlags& flags, bool json) {
  TANDEM_TRY(const std::string plan, read_text(real_files(), flags.plan));
  const auto report = finalize_tasks(real_files(), plan, flags.check);
  if (!report.ok()) return Error(report.error()).at(flags.plan);
  if (json) {
    print_json(to_json(report.value()));
    return 0;
  }
  for (const std::string& remark : report.value().remarks) fmt::print("remark: {}\n", for_terminal(remark));
  fmt::print("{}: {} -> {}: {} tensors, {}\n", report.value().architecture, report.value().from,
             report.value().to, with_commas(report.value().tensors.size()),
             human_bytes(report.value().bytes));
  return 0;
}

}  // namespace

void add_plan(CLI::App& app, Session& session) {
  auto flags = std::make_shared<PlanFlags>();
  CLI::App* command = add_command(
      app, session, "plan", "What a conversion would take, and its tasks, from headers alone", kPlanFooter);
  add_convert_flags(*command, flags->convert, true);
  command->add_option("--limits", flags->limits,
                      "Estimate the time: the file of tandem bench limits --json, or measure");
  command->add_option("--out", flags->out, "Write the plan, for run-task and finalize");
  command->callback([flags, &session] { session.outcome = plan_command(*flags, session.json); });
}

void add_run_task(CLI::App& app, Session& session) {
  auto flags = std::make_shared<TaskFlags>();
  CLI::App* command = add_command(app, session, "run-task", "Do a share of a plan's tasks", kTaskFooter);
  command->add_option("PLAN", flags->plan, "The file of tandem plan --out")->required();
  command->add_option("--task", flags->task, "I/N: the share I of N, from 0");
  add_threads(*command, flags->threads);
  command->add_option("--of", flags->of, "How many shares there are, where the scheduler does not say")
      ->check(positive_number());
  command->callback([flags, &session] { session.outcome = run_task_command(*flags, session.json); });
}

void add_finalize(CLI::App& app, Session& session) {
  auto flags = std::make_shared<FinalizeFlags>();
  CLI::App* command =
      add_command(app, session, "finalize", "Put the output of a plan's tasks in place", kFinalizeFooter);
  command->add_option("PLAN", flags->plan, "The file of tandem plan --out")->required();
  command->add_flag("--check", flags->check, "Read every file again, and compare it with its manifest");
  command->callback([flags, &session] { session.outcome = finalize_command(*flags, session.json); });
}

}  // namespace tandem
