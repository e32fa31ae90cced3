#pragma once
// A conversion beside a plain copy of as many bytes, and beside the way that people go by hand.

#include "base/json.h"
#include "bench/measured.h"
#include "bench/statistics.h"
#include "convert/convert.h"

namespace tandem {

struct ConvertBenchOptions {
  std::string source;      ///< a Hugging Face folder
  std::string folder;      ///< an existing folder on the disk that is measured; scratch files go there
  ConvertOptions convert;  ///< progress is not called
  int rounds = 5;
  bool cold = false;    ///< drop the source's files from the page cache before each run
  bool python = false;  ///< time the Python route too
  std::function<Status(std::string_view step)> progress;  ///< its error stops
};

/// One way from the source to files; `runs` is one a round.
struct ConvertContender {
  std::string name;  ///< "copy" (or "read", where nothing is copied), "tandem", "python"
  std::vector<Measured> runs;
  std::string failure;  ///< why it was not timed
};

struct ConvertBench {
  std::string processor;
  std::string folder;
  unsigned threads = 0;
  uint64_t bytes_in = 0, bytes_out = 0;  ///< of weights
  bool sha256 = false, cold = false;
  std::vector<ConvertContender> contenders;  ///< the first is what ratios are to
};
Json to_json(const ConvertBench& bench);

/// Speed over the first contender's of the same round: above 1 is faster.
Interval speed_ratio(const ConvertBench& bench, const ConvertContender& contender);

/// Takes turns: a copy of as many bytes (the source's files read, as many bytes written as the conversion
/// makes, in the same pieces, by as many threads, with fsync; nothing is converted or summed), the
/// conversion, and the Python route (weights loaded with safetensors, kernels transposed, tf.Variable,
/// tf.saved_model.save; its imports are not counted). Where the conversion copies nothing, its first rival is
/// reading the files once. Errors: of the first two, usage, unavailable (stopped by a signal).
Result<ConvertBench> bench_convert(const ConvertBenchOptions& options);

}  // namespace tandem
