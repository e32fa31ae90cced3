#pragma once
// What this machine can do at most, measured: the roof under which every figure of a benchmark stands.

#include <functional>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "bench/passes.h"

namespace tandem {

struct LimitOptions {
  int threads = 0;                  ///< 0: as many as there are processors
  std::string folder = ".";         ///< on the disk that is measured
  uint64_t memory_bytes = 0;        ///< that passes go round in; 0: memory_to_read()
  uint64_t disk_bytes = 512 << 20;  ///< of the file that is written and read; 0: no disk
  std::function<void(std::string_view step)> progress;
};

struct Limits {
  std::string processor;     ///< as the kernel names it, "" if it does not
  std::string instructions;  ///< the vector instructions used: "AVX2", "AVX3"
  int threads = 0;
  double memory_bytes_per_s = 0;      ///< read, all threads, of the best pass
  double memory_median = 0;           ///< of the median pass: far below, the machine did other things as well
  double float32_per_s = 0;           ///< multiplications and additions of fused multiply-adds, all threads
  double float32_median = 0;          ///< of the median pass
  double disk_write_bytes_per_s = 0;  ///< with fsync; 0: not measured
  double disk_read_bytes_per_s = 0;   ///< of a file dropped from the page cache; a host may still hold it
  double sha256_bytes_per_s = 0;      ///< by one thread; 0: not measured
};
Json to_json(const Limits& limits);
/// The text of `tandem bench limits --json`. Errors: json_c1..5; bench_c3 (corrupt) it is something else.
Result<Limits> limits_from_text(std::string_view text);

/// Best of many passes each (bench/passes.h). Errors: invalid (bench_c1) options out of range; io;
/// unavailable (bench_c6) no memory, or stopped by a signal. The file on the disk is removed in every case.
Result<Limits> measure_limits(const LimitOptions& options);

/// Reading memory, on threads of its own and for that long. Errors: unavailable (bench_c6) no memory, or
/// stopped by a signal.
Result<Rate> memory_limit(int threads, uint64_t bytes, double seconds);

/// Bytes of all last-level caches, from the kernel's folder of processors; 0 if it does not say.
uint64_t cache_bytes(const std::string& folder = "/sys/devices/system/cpu");
/// So many that hardly any is still in a cache of that size when its turn comes again.
uint64_t memory_to_read(uint64_t caches);

/// "AMD EPYC 9654 96-Core Processor", from /proc/cpuinfo; "" if it does not say.
std::string processor_name();

}  // namespace tandem
