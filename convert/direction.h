#pragma once
// The two directions of convert, each in its file; convert.cpp chooses. Private to this folder.

#include "base/signals.h"
#include "base/staging.h"
#include "convert/convert.h"
#include "convert/open_model.h"
#include "convert/tensor_view.h"

namespace tandem {

/// Hugging Face to TensorFlow.
Result<ConvertReport> convert_forward(const FileSystem& files, OpenedModel source,
                                      const std::string& destination, const ConvertOptions& options);
/// TensorFlow to Hugging Face.
Result<ConvertReport> convert_back(const FileSystem& files, OpenedModel source,
                                   const std::string& destination, const ConvertOptions& options);

/// Refuses names that differ in case only: they would be one file or one key elsewhere (R4).
Status distinct_names(const TensorSource& source);

/// Counts bytes for options.progress, and stops at a signal.
class Meter {
 public:
  Meter(const ConvertOptions& options, uint64_t total) : options_(options), total_(total) {}
  Status operator()(uint64_t bytes) {
    done_ += bytes;
    if (interrupted()) return unavailable("", "stopped by a signal; nothing was written");
    return options_.progress ? options_.progress(done_, total_) : Status{};
  }
  uint64_t done() const { return done_; }

 private:
  const ConvertOptions& options_;
  uint64_t done_ = 0;
  uint64_t total_;
};

/// Refuses finite values that became infinite, naming each tensor and how many (D04, convert_c2).
Status no_overflow(const std::vector<ConvertedTensor>& tensors);

}  // namespace tandem
