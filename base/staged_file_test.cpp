#include "base/staged_file.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "base/test_folder.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> names(const TestFolder& folder) { return real_files().list(folder.path()).value(); }

TEST(StagedFile, AppearsWhole) {
  const TestFolder folder;
  {
    auto staged = StagedFile::make(real_files(), folder / "out.html");
    ASSERT_TRUE(staged.ok());
    EXPECT_THAT(names(folder), ElementsAre(fmt::format(".out.html.tandem-{}", ::getpid())));
    ASSERT_TRUE(staged.value().commit("text").ok());
  }
  EXPECT_THAT(names(folder), ElementsAre("out.html"));
  EXPECT_EQ(read_text(real_files(), folder / "out.html").value(), "text");
}

TEST(StagedFile, WithoutCommitNothingChanges) {
  const TestFolder folder;
  ASSERT_TRUE(write_text(real_files(), folder / "out.html", "old").ok());
  { ASSERT_TRUE(StagedFile::make(real_files(), folder / "out.html").ok()); }
  EXPECT_THAT(names(folder), ElementsAre("out.html"));
  EXPECT_EQ(read_text(real_files(), folder / "out.html").value(), "old");
}

TEST(StagedFile, APlaceThatCannotBeWrittenIsKnownAtOnce) {
  const TestFolder folder;
  ASSERT_TRUE(real_files().make_directories(folder / "taken").ok());
  const auto no_folder = StagedFile::make(real_files(), folder / "none/out.html");
  ASSERT_FALSE(no_folder.ok());
  EXPECT_EQ(no_folder.error().kind, ErrorKind::exists);
  const auto a_folder = StagedFile::make(real_files(), folder / "taken");
  ASSERT_FALSE(a_folder.ok());
  EXPECT_THAT(a_folder.error().message(), HasSubstr("taken: the output is there, and is no regular file"));
  const auto no_name = StagedFile::make(real_files(), folder / "taken/");
  ASSERT_FALSE(no_name.ok());
  EXPECT_EQ(no_name.error().rule, "staging_c1");
  EXPECT_THAT(names(folder), ElementsAre("taken"));
}

}  // namespace
}  // namespace tandem
