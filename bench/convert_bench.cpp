#include "bench/convert_bench.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "base/file.h"
#include "base/piece_file.h"
#include "bench/limits.h"
#include "convert/conversion.h"
#include "engines/worker_process.h"

extern char** environ;

namespace tandem {
namespace {

namespace fs = std::filesystem;

/// The files of weights of a source.
std::vector<std::string> weight_files(const OpenedModel& source) {
  std::set<std::string> names;
  for (const auto& [tensor, file] : source.folder->weight_map()) names.insert(join(source.path, file));
  if (names.empty()) names.insert(join(source.path, "model.safetensors"));
  return {names.begin(), names.end()};
}

/// Copies files into one, `out` bytes for each `in` bytes; bytes that are not there are written as they lie
/// in memory.
Status copy_files(const std::vector<std::string>& paths, const std::string& destination, uint64_t in,
                  uint64_t out, unsigned threads) {
  TANDEM_TRY(auto created, real_files().create(destination));
  PieceFile copy(std::move(created), {.sha256 = false, .threads = threads, .sums = false});
  for (const std::string& path : paths) {
    TANDEM_TRY(const auto file, real_files().open(path));
    const auto place = [&](uint64_t at) {
      return std::min(at / out * in + at % out * in / out, file->size());
    };
    const uint64_t size = file->size() / in * out + file->size() % in * out / in;
    TANDEM_CHECK(copy.append(size, [&](uint64_t offset, std::span<std::byte> room) {
      const uint64_t begin = place(offset), end = place(offset + room.size());
      return file->read(begin, room.first(std::min<uint64_t>(end - begin, room.size())));
    }));
  }
  TANDEM_CHECK(copy.close());
  return {};
}

/// Reads files once, by some threads.
Status read_files(const std::vector<std::string>& paths, unsigned threads) {
  constexpr uint64_t kPiece = 256 << 10;
  for (const std::string& path : paths) {
    TANDEM_TRY(const auto file, real_files().open(path));
    std::atomic<uint64_t> next = 0;
    std::atomic<bool> failed = false;
    const auto work = [&] {
      std::vector<std::byte> room(kPiece);
      for (uint64_t at; (at = next.fetch_add(kPiece)) < file->size();)
        if (!file->read(at, std::span(room).first(std::min(kPiece, file->size() - at)))) failed = true;
    };
    std::vector<std::thread> helpers;
    for (unsigned i = 1; i < threads; ++i) helpers.emplace_back(work);
    work();
    for (std::thread& helper : helpers) helper.join();
    if (failed) return io_error("read", path, EIO);
  }
  return {};
}

/// Runs the script to its end; the seconds that it prints as its last word.
Result<double> python_route(const std::string& source, const std::string& destination,
                            const std::string& dtype) {
  TANDEM_TRY(const WorkerCommand worker, worker_command(EngineKind::hf));
  std::vector<std::string> words = worker.arguments;
  words.back() = words.back().substr(0, words.back().rfind('/') + 1) + "bench_convert_route.py";
  const std::string said = destination + ".seconds";
  words.insert(words.end(), {source, destination, dtype, said});
  std::vector<char*> arguments;
  for (std::string& text : words) arguments.push_back(text.data());
  arguments.push_back(nullptr);
  const std::string log = destination + ".log";
  const int output = ::open(log.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
  ::dup2(output, STDOUT_FILENO);  // this is a child of its own: see measure_in_child
  ::dup2(output, STDERR_FILENO);
  pid_t pid = 0;
  if (const int reason = posix_spawn(&pid, arguments[0], nullptr, nullptr, arguments.data(), environ);
      reason != 0)
    return io_error("start", words[0], reason);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  double seconds = 0;
  if (!(std::ifstream(said) >> seconds) || status != 0) {
    std::ifstream file(log);
    std::string line, last;
    while (std::getline(file, line))
      if (!line.empty()) last = line;
    return unavailable("", "{}", last.empty() ? "it said nothing" : last).because(worker.install_hint);
  }
  return seconds;
}

void forget(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;
    static_cast<void>(::fsync(fd));
    static_cast<void>(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
    ::close(fd);
  }
}

struct Way {
  std::string name;
  bool may_fail;
  std::function<Result<double>()> run;
};

std::vector<Way> ways_of(const ConvertBenchOptions& options, const std::vector<std::string>& paths,
                         const std::string& scratch, uint64_t in, uint64_t out) {
  std::vector<Way> ways;
  if (options.convert.layout == WeightLayout::source && options.convert.place != Place::copy)
    ways.push_back({"read", false, [=]() -> Result<double> {
                      TANDEM_CHECK(read_files(paths, options.convert.threads));
                      return 0.0;
                    }});
  else
    ways.push_back({"copy", false, [=]() -> Result<double> {
                      TANDEM_CHECK(copy_files(paths, scratch + "/copy", in, out, options.convert.threads));
                      return 0.0;
                    }});
  ways.push_back({"tandem", false, [=]() -> Result<double> {
                    TANDEM_CHECK(
                        convert(real_files(), options.source, scratch + "/converted", options.convert));
                    return 0.0;
                  }});
  if (options.python)
    ways.push_back({"python", true, [=] {
                      const auto dtype = options.convert.dtype;
                      return python_route(options.source, scratch + "/python",
                                          std::string(dtype ? row(*dtype).long_name : "keep"));
                    }});
  return ways;
}

/// A folder that goes with all that is in it.
struct ScratchFolder {
  std::string path;
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  /// What one run left.
  void empty() const {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(path, ignored)) fs::remove_all(entry.path(), ignored);
  }
};

}  // namespace

Interval speed_ratio(const ConvertBench& bench, const ConvertContender& contender) {
  std::vector<double> limit, ours;
  for (const Measured& run : bench.contenders[0].runs) limit.push_back(run.seconds);
  for (const Measured& run : contender.runs) ours.push_back(run.seconds);
  return ratio_interval(limit, ours);
}

Json to_json(const ConvertBench& bench) {
  Json contenders = Json::array();
  for (const ConvertContender& contender : bench.contenders) {
    Json seconds = Json::array();
    uint64_t peak = 0;
    for (const Measured& run : contender.runs) {
      seconds.push_back(run.seconds);
      peak = std::max(peak, run.peak_bytes);
    }
    const bool timed = !contender.runs.empty();
    contenders.push_back(Json{{"name", contender.name},
                              {"failure", contender.failure},
                              {"seconds", std::move(seconds)},
                              {"peak_bytes", peak},
                              {"ratio", to_json(timed ? speed_ratio(bench, contender) : Interval{})}});
  }
  return Json{{"processor", bench.processor}, {"folder", bench.folder},
              {"threads", bench.threads},     {"bytes_in", bench.bytes_in},
              {"bytes_out", bench.bytes_out}, {"sha256", bench.sha256},
              {"cold", bench.cold},           {"contenders", std::move(contenders)}};
}

Result<ConvertBench> bench_convert(const ConvertBenchOptions& options) {
  TANDEM_TRY(const auto conversion, plan_conversion(real_files(), options.source, options.convert, false));
  TANDEM_TRY(const OpenedModel source,
             open_model(real_files(), options.source, {.limits = options.convert.limits}));
  if (source.format != ModelFormat::hf_folder)
    return usage("", "{} is no Hugging Face folder", options.source);
  ConvertBench bench{processor_name(),
                     fs::absolute(options.folder).string(),
                     options.convert.threads,
                     0,
                     0,
                     options.convert.sha256,
                     options.cold,
                     {}};
  const std::vector<std::string> paths = weight_files(source);
  for (const std::string& path : paths) {
    TANDEM_TRY(const auto file, real_files().open(path));
    bench.bytes_in += file->size();
  }
  for (const DataShard& shard : conversion->shards()) bench.bytes_out += shard.bytes;
  std::string name = join(options.folder, "tandem-bench-XXXXXX");
  if (!::mkdtemp(name.data())) return io_error("make a folder", name, errno);
  const ScratchFolder scratch{name};
  const std::vector<Way> ways = ways_of(options, paths, name, bench.bytes_in, bench.bytes_out);
  for (const Way& way : ways) bench.contenders.push_back({way.name, {}, {}});
  for (int round = 0; round < options.rounds; ++round)
    for (size_t i = 0; i < ways.size(); ++i) {
      ConvertContender& contender = bench.contenders[i];
      if (!contender.failure.empty()) continue;
      if (options.progress)
        TANDEM_CHECK(
            options.progress(fmt::format("round {} of {}: {}", round + 1, options.rounds, ways[i].name)));
      if (options.cold) forget(paths);
      auto run = measure_in_child(ways[i].run);
      scratch.empty();
      if (!run.ok() && !ways[i].may_fail) return std::move(run).error();
      if (run.ok())
        contender.runs.push_back(run.value());
      else
        contender.failure = run.error().text, contender.runs.clear();
    }
  return bench;
}

}  // namespace tandem
