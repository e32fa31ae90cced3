#include "convert/read_back.h"

#include <algorithm>

#include "base/signals.h"

namespace tandem {

Status is_as_written(const FileSystem& files, const std::string& path, const FileSums& written) {
  TANDEM_TRY(const auto file, files.open(path));
  const PieceOptions options{.sha256 = !written.sha256.empty(), .threads = 2};
  TANDEM_TRY(const FileSums now, sums_of(*file, options, [](uint64_t) -> Status {
               return interrupted() ? Status(unavailable("", "stopped by a signal")) : Status{};
             }));
  if (now == written) return {};
  const size_t block = static_cast<size_t>(
      std::mismatch(now.blocks.begin(), now.blocks.end(), written.blocks.begin(), written.blocks.end())
          .first -
      now.blocks.begin());
  return corrupt("task_c2", "the checksums are not those of its manifest, first from byte {} to {}",
                 block * kSumBlock, std::min((block + 1) * kSumBlock, now.bytes))
      .at(path)
      .because("damaged after it was written; remove the file, and run its task again");
}

}  // namespace tandem
