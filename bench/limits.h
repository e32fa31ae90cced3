#pragma once
// What this machine can do at most, measured: the roof under which every figure of a benchmark stands.

#include <functional>
#include <string>

#include "base/json.h"
#include "base/result.h"

namespace tandem {

struct LimitOptions {
  int threads = 0;                    ///< 0: as many as there are processors
  std::string folder = ".";           ///< on the disk that is measured
  uint64_t memory_bytes = 512 << 20;  ///< read by each pass; should be far above the last-level cache
  uint64_t disk_bytes = 512 << 20;    ///< of the file that is written and read; 0: no disk
  std::function<void(std::string_view step)> progress;
};

struct Limits {
  std::string processor;     ///< as the kernel names it, "" if it does not
  std::string instructions;  ///< the vector instructions used: "AVX2", "AVX3"
  int threads = 0;
  double memory_bytes_per_s = 0;      ///< read, all threads
  double float32_per_s = 0;           ///< multiplications and additions of fused multiply-adds, all threads
  double disk_write_bytes_per_s = 0;  ///< with fsync; 0: not measured
  double disk_read_bytes_per_s = 0;   ///< of a file dropped from the page cache; a host may still hold it
  double sha256_bytes_per_s = 0;      ///< by one thread; 0: not measured
};
Json to_json(const Limits& limits);
/// The text of `tandem bench limits --json`. Errors: json_c1..5; bench_c3 (corrupt) it is something else.
Result<Limits> limits_from_text(std::string_view text);

/// Best of several passes each. Errors: invalid (bench_c1) options out of range; io; unavailable, stopped by
/// a signal. The file on the disk is removed in every case.
Result<Limits> measure_limits(const LimitOptions& options);

/// "AMD EPYC 9654 96-Core Processor", from /proc/cpuinfo; "" if it does not say.
std::string processor_name();

}  // namespace tandem
