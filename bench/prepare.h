#pragma once
// `tandem bench prepare`: a Hugging Face folder in the files that contenders read, each made by its own tool:
// bf16.savedmodel by this one (prepare_bf16.h).

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace tandem {

struct PrepareOptions {
  std::vector<std::string> contenders;  ///< whose files are made; empty: of all that need one
  double timeout_s = 3600;              ///< of one
  std::function<Status(std::string_view step)> progress;
};

struct PrepareReport {
  std::string folder;
  std::map<std::string, double> made;           ///< name in the folder to the seconds it took
  std::map<std::string, std::string> not_made;  ///< name to why
};
Json to_json(const PrepareReport& report);

/// Makes the new folder `out` of `model`, whole or not at all; what one tool cannot make is told in the
/// report. Errors: usage (bench_c3) no such contender; exists (bench_c8) `out` is there; the first tool's own
/// where none made anything; progress' own; io.
Result<PrepareReport> bench_prepare(const std::string& model, const std::string& out,
                                    const PrepareOptions& options);

}  // namespace tandem
