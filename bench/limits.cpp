#include "bench/limits.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <thread>
#include <vector>

#include "base/sha256_tree.h"
#include "base/signals.h"
#include "bench/kernels.h"

namespace tandem {
namespace {

constexpr int kDiskPasses = 5;
constexpr double kSeconds = 0.5;             // of passes, of memory and of arithmetic each
constexpr size_t kFloats = 1024;             // sum_of takes multiples of it
constexpr uint64_t kSlice = 32 << 20;        // that a thread reads in a pass: about a millisecond
constexpr size_t kRounds = size_t{1} << 19;  // of multiply_add: about a millisecond
constexpr size_t kChunk = 8 << 20;           // of a file
constexpr int kMaxThreads = 1024;
constexpr uint64_t kLeastMemory = 512 << 20;
constexpr uint64_t kTimesCaches = 8;
constexpr size_t kHugePage = 2 << 20;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Status not_stopped() {
  if (interrupted()) return unavailable("", "stopped by a signal");
  return {};
}

/// Floats on pages of 2 MiB where the kernel gives them: 4 KiB are too small for what a processor reads
/// ahead.
class Memory {
 public:
  explicit Memory(size_t count)
      : count_(count), bytes_((count * sizeof(float) + kHugePage - 1) / kHugePage * kHugePage) {
    values_ = static_cast<float*>(std::aligned_alloc(kHugePage, bytes_));
    if (values_) madvise(values_, bytes_, MADV_HUGEPAGE);
  }
  Memory(Memory&& other) noexcept
      : count_(other.count_), bytes_(other.bytes_), values_(std::exchange(other.values_, nullptr)) {}
  Memory& operator=(Memory&&) = delete;
  ~Memory() { std::free(values_); }
  std::span<float> values() { return {values_, values_ ? count_ : 0}; }

 private:
  size_t count_, bytes_;
  float* values_ = nullptr;
};

Result<Rate> arithmetic_limit(int threads) {
  const double units = multiply_add(1) * static_cast<double>(kRounds) * threads;
  return rate_of_passes(
      {threads, kSeconds}, units, [](int) {}, [](int, size_t) { multiply_add(kRounds); });
}

/// What one thread hashes, of bytes that lie in its cache.
Result<double> hash_limit() {
  constexpr size_t kPiece = 1 << 20, kPieces = 32;
  const std::vector<std::byte> piece(kPiece);
  double best = 0;
  for (int pass = 0; pass < kDiskPasses; ++pass) {
    TANDEM_CHECK(not_stopped());
    Sha256TreeHash hash;
    const auto begin = std::chrono::steady_clock::now();
    for (size_t i = 0; i < kPieces; ++i) hash.update(piece);
    if (hash.finish().blocks.size() != kPiece * kPieces / kSumBlock)
      return make_error(ErrorKind::bug, "bench_c2", "no hash");
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
    for (int pass = 0; pass < kDiskPasses; ++pass) {
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
  if (options.memory_bytes != 0 &&
      options.memory_bytes / static_cast<uint64_t>(threads) < (uint64_t{1} << 20))
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

uint64_t cache_bytes(const std::string& folder) {
  struct Cache {
    uint64_t level = 0, bytes = 0;
  };
  std::map<std::string, Cache> caches;  // by the processors that share it: the last level wins
  std::error_code ignored;
  const auto line = [](const std::filesystem::path& path) {
    std::ifstream file(path);
    std::string text;
    std::getline(file, text);
    return text;
  };
  const auto number = [](const std::string& text) {
    uint64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  };
  for (const auto& processor : std::filesystem::directory_iterator(folder, ignored)) {
    Cache last;
    std::string shared;
    for (const auto& index : std::filesystem::directory_iterator(processor.path() / "cache", ignored)) {
      const Cache cache{number(line(index.path() / "level")), number(line(index.path() / "size")) << 10};
      if (cache.level < last.level) continue;
      last = cache;
      shared = line(index.path() / "shared_cpu_list");
    }
    caches[shared] = last;
  }
  uint64_t all = 0;
  for (const auto& [processors, cache] : caches) all += cache.bytes;
  return all;
}

uint64_t memory_to_read(uint64_t caches) { return std::max(kLeastMemory, kTimesCaches * caches); }

Result<Rate> memory_limit(int threads, uint64_t bytes, double seconds) {
  const size_t each = bytes / sizeof(float) / static_cast<size_t>(threads) / kFloats * kFloats;
  const size_t slice = std::min<size_t>(each, kSlice / sizeof(float)), slices = each / slice;
  std::vector<Memory> memory;
  for (int thread = 0; thread < threads; ++thread)
    if (memory.emplace_back(each).values().empty())
      return unavailable("bench_c6", "no memory: {} bytes for a thread", each * sizeof(float));
  std::vector<float> sums(memory.size());
  const double units = static_cast<double>(slice * sizeof(float)) * threads;
  // Touched first by its reader, so that it lies near that processor.
  const auto fill = [&](int thread) {
    const auto all = memory[static_cast<size_t>(thread)].values();
    std::fill(all.begin(), all.end(), 1.0f);
  };
  const auto read = [&](int thread, size_t pass) {
    const auto all = memory[static_cast<size_t>(thread)].values();
    sums[static_cast<size_t>(thread)] = sum_of(all.data() + pass % slices * slice, slice);
  };
  TANDEM_TRY(const Rate rate, rate_of_passes({threads, seconds}, units, fill, read));
  // A sum that is not what was written means that the loop did not read it all.
  for (const float sum : sums)
    if (sum != static_cast<float>(slice))
      return make_error(ErrorKind::bug, "bench_c2", "the memory pass summed to {}, expected {}", sum, slice);
  return rate;
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
  const uint64_t bytes = options.memory_bytes ? options.memory_bytes : memory_to_read(cache_bytes());
  TANDEM_TRY(const Rate memory, memory_limit(limits.threads, bytes, kSeconds));
  limits.memory_bytes_per_s = memory.best;
  limits.memory_median = memory.median;
  step("arithmetic");
  TANDEM_TRY(const Rate arithmetic, arithmetic_limit(limits.threads));
  limits.float32_per_s = arithmetic.best;
  limits.float32_median = arithmetic.median;
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
              {"memory_read_median_bytes_per_s", limits.memory_median},
              {"float32_operations_per_s", limits.float32_per_s},
              {"float32_median_operations_per_s", limits.float32_median},
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
