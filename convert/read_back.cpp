#include "convert/read_back.h"

#include <algorithm>

#include "base/signals.h"

namespace tandem {
namespace {

template <typename Sum>
size_t first_difference(const std::vector<Sum>& left, const std::vector<Sum>& right) {
  return static_cast<size_t>(std::ranges::mismatch(left, right).in1 - left.begin());
}

}  // namespace

Status is_as_written(const FileSystem& files, const std::string& path, const FileSums& written) {
  TANDEM_TRY(const auto file, files.open(path));
  const PieceOptions options{.sha256 = written.sha256.has_value(), .threads = 2};
  TANDEM_TRY(const FileSums now, sums_of(*file, options, [](uint64_t) -> Status {
               return interrupted() ? Status(unavailable("", "stopped by a signal")) : Status{};
             }));
  if (now == written) return {};
  size_t block = first_difference(now.blocks, written.blocks);
  if (now.sha256 && written.sha256)
    block = std::min(block, first_difference(now.sha256->blocks, written.sha256->blocks));
  return corrupt("task_c2", "the checksums are not those of its manifest, first from byte {} to {}",
                 std::min(block * kSumBlock, now.bytes), std::min((block + 1) * kSumBlock, now.bytes))
      .at(path)
      .because("damaged after it was written; remove the file, and run its task again");
}

}  // namespace tandem
