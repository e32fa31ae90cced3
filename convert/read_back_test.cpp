#include "convert/read_back.h"

#include <gmock/gmock.h>

#include "base/memory_files.h"
#include "base/piece_file.h"

namespace tandem {
namespace {

using testing::HasSubstr;

/// A file of three blocks, and its sums.
struct Written {
  MemoryFiles files;
  FileSums sums;

  Written() {
    EXPECT_TRUE(files.make_directories("/d").ok());
    PieceFile file(files.create("/d/f").value(), {.sha256 = true});
    EXPECT_TRUE(file.append(std::vector<std::byte>(2 * kSumBlock + 77)).ok());
    sums = file.close().value();
  }
};

TEST(ReadBack, AFileIsAsItWasWritten) {
  const Written written;
  EXPECT_TRUE(is_as_written(written.files, "/d/f", written.sums).ok());
}

TEST(ReadBack, EitherSumOfABlockNamesIt) {
  const Written written;
  FileSums other = written.sums;
  other.blocks[2] ^= 1;
  Status read = is_as_written(written.files, "/d/f", other);
  EXPECT_THAT(read.error().message(), HasSubstr("first from byte 8388608 to 8388685"));
  other.sha256->blocks[1][31] ^= std::byte{1};
  read = is_as_written(written.files, "/d/f", other);
  EXPECT_THAT(read.error().message(), HasSubstr("first from byte 4194304 to 8388608"));
}

TEST(ReadBack, TheRootCounts) {
  const Written written;
  FileSums other = written.sums;
  other.sha256->root[0] ^= std::byte{1};
  const Status read = is_as_written(written.files, "/d/f", other);
  EXPECT_EQ(read.error().rule, "task_c2");
}

}  // namespace
}  // namespace tandem
