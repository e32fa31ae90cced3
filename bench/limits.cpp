#include "bench/limits.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>
#include <vector>

#include "base/hash.h"
#include "base/signals.h"
#include "bench/kernels.h"

namespace tandem {
namespace {

constexpr int kPasses = 5;
constexpr size_t kFloats = 1024;             // sum_of takes multiples of it
constexpr size_t kRounds = size_t{1} << 24;  // of multiply_add: some 50 ms
constexpr size_t kChunk = 8 << 20;           // of a file
constexpr int kMaxThreads = 1024;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Runs `work(thread)` on that many threads that begin together; the seconds until the last has ended.
double timed(int threads, const std::function<void(int)>& work) {
  std::atomic<int> waiting = threads;
  std::vector<std::thread> others;
  const auto run = [&](int thread) {
    --waiting;
    while (waiting > 0) std::this_thread::yield();
    work(thread);
  };
  for (int thread = 1; thread < threads; ++thread) others.emplace_back(run, thread);
  --waiting;
  while (waiting > 0) std::this_thread::yield();
  const auto begin = std::chrono::steady_clock::now();
  work(0);
  for (std::thread& other : others) other.join();
  return seconds_since(begin);
}

Status not_stopped() {
  if (interrupted()) return unavailable("", "stopped by a signal");
  return {};
}

Result<double> memory_limit(int threads, uint64_t bytes) {
  const size_t each = bytes / sizeof(float) / static_cast<size_t>(threads) / kFloats * kFloats;
  std::vector<std::vector<float>> memory(static_cast<size_t>(threads));
  std::vector<float> sums(memory.size());
  timed(threads, [&](int thread) { memory[static_cast<size_t>(thread)].assign(each, 1.0f); });
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    TANDEM_CHECK(not_stopped());
    const double seconds = timed(threads, [&](int thread) {
      const std::vector<float>& mine = memory[static_cast<size_t>(thread)];
      sums[static_cast<size_t>(thread)] = sum_of(mine.data(), mine.size());
    });
    best = std::max(best, static_cast<double>(each * sizeof(float) * memory.size()) / seconds);
  }
  // A sum that is not what was written means that the loop did not read it all.
  for (const float sum : sums)
    if (sum == 0) return make_error(ErrorKind::bug, "bench_c2", "the memory pass summed to 0");
  return best;
}

Result<double> arithmetic_limit(int threads) {
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    TANDEM_CHECK(not_stopped());
    std::vector<double> operations(static_cast<size_t>(threads));
    const double seconds =
        timed(threads, [&](int thread) { operations[static_cast<size_t>(thread)] = multiply_add(kRounds); });
    double all = 0;
    for (const double mine : operations) all += mine;
    best = std::max(best, all / seconds);
  }
  return best;
}

/// What one thread hashes, of bytes that lie in its cache.
Result<double> hash_limit() {
  constexpr size_t kPiece = 1 << 20, kPieces = 32;
  const std::vector<std::byte> piece(kPiece);
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    TANDEM_CHECK(not_stopped());
    Sha256 hash;
    const auto begin = std::chrono::steady_clock::now();
    for (size_t i = 0; i < kPieces; ++i) hash.update(piece);
    if (hash.hex().size() != 64) return make_error(ErrorKind::bug, "bench_c2", "no hash");
    best = std::max(best, static_cast<double>(kPiece * kPieces) / seconds_since(begin));
  }
  return best;
}

/// A file that has no name, and so never outlives the process.
class ScratchFile {
 public:
  static Result<ScratchFile> make(const std::string& folder) {
    ScratchFile file;
    file.fd_ = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (file.fd_ < 0) return io_error("make a scratch file in", folder, errno);
    file.folder_ = folder;
    return file;
  }
  ~ScratchFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  ScratchFile(ScratchFile&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), folder_(std::move(other.folder_)) {}
  ScratchFile& operator=(ScratchFile&&) = delete;

  /// Bytes a second.
  Result<double> write(uint64_t bytes) {
    std::vector<char> chunk(kChunk, 'x');
    const auto begin = std::chrono::steady_clock::now();
    for (uint64_t at = 0; at < bytes; at += kChunk) {
      TANDEM_CHECK(not_stopped());
      if (::pwrite(fd_, chunk.data(), kChunk, static_cast<off_t>(at)) != static_cast<ssize_t>(kChunk))
        return io_error("write a scratch file in", folder_, errno);
    }
    if (::fsync(fd_) != 0) return io_error("sync a scratch file in", folder_, errno);
    return static_cast<double>(rounded(bytes)) / seconds_since(begin);
  }
  Result<double> read(uint64_t bytes) {
    std::vector<char> chunk(kChunk);
    double best = 0;
    for (int pass = 0; pass < kPasses; ++pass) {
      static_cast<void>(::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED));
      const auto begin = std::chrono::steady_clock::now();
      for (uint64_t at = 0; at < bytes; at += kChunk) {
        TANDEM_CHECK(not_stopped());
        if (::pread(fd_, chunk.data(), kChunk, static_cast<off_t>(at)) != static_cast<ssize_t>(kChunk))
          return io_error("read a scratch file in", folder_, errno);
      }
      best = std::max(best, static_cast<double>(rounded(bytes)) / seconds_since(begin));
    }
    return best;
  }

 private:
  ScratchFile() = default;
  static uint64_t rounded(uint64_t bytes) { return (bytes + kChunk - 1) / kChunk * kChunk; }
  int fd_ = -1;
  std::string folder_;
};

Status check(const LimitOptions& options, int threads) {
  if (threads < 1 || threads > kMaxThreads)
    return invalid("bench_c1", "{} threads, expected 1 to {}", options.threads, kMaxThreads);
  if (options.memory_bytes / static_cast<uint64_t>(threads) < (uint64_t{1} << 20))
    return invalid("bench_c1", "{} bytes of memory for {} threads, expected a MiB or more each",
                   options.memory_bytes, threads);
  return {};
}

}  // namespace

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  constexpr std::string_view kKey = "model name";
  for (std::string line; std::getline(file, line);)
    if (const size_t colon = line.find(": "); line.starts_with(kKey) && colon != line.npos)
      return line.substr(colon + 2);
  return {};
}

Result<Limits> measure_limits(const LimitOptions& options) {
  Limits limits;
  limits.threads =
      options.threads ? options.threads : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  TANDEM_CHECK(check(options, limits.threads));
  const auto step = [&](std::string_view text) {
    if (options.progress) options.progress(text);
  };
  limits.processor = processor_name();
  limits.instructions = instructions_name();
  step("memory");
  TANDEM_TRY(limits.memory_bytes_per_s, memory_limit(limits.threads, options.memory_bytes));
  step("arithmetic");
  TANDEM_TRY(limits.float32_per_s, arithmetic_limit(limits.threads));
  step("hashing");
  TANDEM_TRY(limits.sha256_bytes_per_s, hash_limit());
  if (options.disk_bytes == 0) return limits;
  step("disk");
  TANDEM_TRY(ScratchFile file, ScratchFile::make(options.folder));
  TANDEM_TRY(limits.disk_write_bytes_per_s, file.write(options.disk_bytes));
  TANDEM_TRY(limits.disk_read_bytes_per_s, file.read(options.disk_bytes));
  return limits;
}

Json to_json(const Limits& limits) {
  return Json{{"processor", limits.processor},
              {"instructions", limits.instructions},
              {"threads", limits.threads},
              {"memory_read_bytes_per_s", limits.memory_bytes_per_s},
              {"float32_operations_per_s", limits.float32_per_s},
              {"disk_write_bytes_per_s", limits.disk_write_bytes_per_s},
              {"disk_read_bytes_per_s", limits.disk_read_bytes_per_s},
              {"sha256_bytes_per_s", limits.sha256_bytes_per_s}};
}

Result<Limits> limits_from_text(std::string_view text) {
  TANDEM_TRY(const Json json, parse_json(text));
  const auto wrong = [](std::string_view what) {
    return corrupt("bench_c3", "not the limits of a machine: {}", what).because("tandem bench limits --json");
  };
  const auto speed = [&](const char* key) {
    const auto value = json.find(key);
    return value != json.end() && value->is_number() ? value->get<double>() : -1;
  };
  if (!json.is_object()) return wrong("no object");
  Limits limits;
  struct Field {
    const char* key;
    double* value;
  };
  for (const Field& field : {Field{"memory_read_bytes_per_s", &limits.memory_bytes_per_s},
                             Field{"float32_operations_per_s", &limits.float32_per_s},
                             Field{"disk_write_bytes_per_s", &limits.disk_write_bytes_per_s},
                             Field{"disk_read_bytes_per_s", &limits.disk_read_bytes_per_s},
                             Field{"sha256_bytes_per_s", &limits.sha256_bytes_per_s}}) {
    *field.value = speed(field.key);
    const bool older = field.value == &limits.sha256_bytes_per_s && !json.contains(field.key);
    if (older) *field.value = 0;  // written before it was measured
    if (!(*field.value >= 0)) return wrong(fmt::format("\"{}\" is no number from 0", field.key));
  }
  return limits;
}

}  // namespace tandem
