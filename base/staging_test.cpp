#include "base/staging.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/fault_files.h"
#include "base/test_folder.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names(const TestFolder& folder) { return real_files().list(folder.path()).value(); }
using Names = std::vector<std::string>;

// Writes one file into a new output and commits it.
Status put(const FileSystem& files, const std::string& output, const std::string& text, bool force) {
  TANDEM_TRY(StagedFolder staged, StagedFolder::make(files, output, force));
  TANDEM_CHECK(files.make_directories(join(staged.path(), "sub")));
  TANDEM_CHECK(write_text(files, join(staged.path(), "sub/f"), text));
  return staged.commit(force);
}

std::string got(const std::string& output) { return read_text(real_files(), join(output, "sub/f")).value(); }

TEST(StagedFolder, AppearsWhole) {
  const TestFolder folder;
  {
    auto staged = StagedFolder::make(real_files(), folder / "new/out/", false);
    ASSERT_TRUE(staged.ok());
    EXPECT_EQ(staged.value().output(), folder / "new/out");
    EXPECT_EQ(staged.value().path(), folder / fmt::format("new/.out.tandem-{}", ::getpid()));
    EXPECT_FALSE(fs::exists(folder / "new/out"));
    ASSERT_TRUE(write_text(real_files(), join(staged.value().path(), "f"), "x").ok());
    ASSERT_TRUE(staged.value().commit(false).ok());
  }
  EXPECT_EQ(real_files().list(folder / "new").value(), Names{"out"});
  EXPECT_EQ(read_text(real_files(), folder / "new/out/f").value(), "x");
}

TEST(StagedFolder, OrNotAtAll) {
  const TestFolder folder;
  { ASSERT_TRUE(StagedFolder::make(real_files(), folder / "out", false).ok()); }
  EXPECT_EQ(names(folder), Names{});
}

TEST(StagedFolder, RelativeOutput) {
  const TestFolder folder;
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  EXPECT_TRUE(put(real_files(), "out", "x", false).ok());
  fs::current_path(before);
  EXPECT_EQ(names(folder), Names{"out"});
}

TEST(StagedFolder, C1NeedsAName) {
  for (const char* path : {"", "/", ".", "..", "a/.."})
    EXPECT_EQ(StagedFolder::make(real_files(), path, false).error().rule, "staging_c1") << path;
}

TEST(StagedFolder, RefusesToOverwrite) {
  const TestFolder folder;
  fs::create_directory(folder / "out");
  const auto staged = StagedFolder::make(real_files(), folder / "out", false);
  ASSERT_FALSE(staged.ok());
  EXPECT_EQ(staged.error().message(), folder / "out: the output exists already (--force replaces it)");
  EXPECT_EQ(exit_code(staged.error().kind), 73);
  EXPECT_EQ(names(folder), Names{"out"});
}

TEST(StagedFolder, DotDotBehindALinkIsWhereTheSystemSaysItIs) {
  const TestFolder folder;
  fs::create_directories(folder / "elsewhere/deep");
  fs::create_directory_symlink(folder / "elsewhere/deep", folder / "link");
  ASSERT_TRUE(put(real_files(), folder / "link/../out/./", "new", false).ok());
  EXPECT_TRUE(fs::is_directory(folder / "elsewhere/out"));
  EXPECT_EQ(names(folder), (Names{"elsewhere", "link"}));
}

TEST(StagedFolder, AnOutputThatCannotBeCreatedIsNoMissingInput) {
  const TestFolder folder;
  ASSERT_TRUE(write_text(real_files(), folder / "file", "text").ok());
  const auto below_a_file = StagedFolder::make(real_files(), folder / "file/out", false);
  EXPECT_EQ(exit_code(below_a_file.error().kind), 73) << below_a_file.error().message();
  EXPECT_EQ(names(folder), Names{"file"});
}

TEST(StagedFolder, RefusesWhatAppearedMeanwhile) {
  const TestFolder folder;
  {
    auto staged = StagedFolder::make(real_files(), folder / "out", false);
    fs::create_directory(folder / "out");
    EXPECT_EQ(staged.value().commit(false).error().kind, ErrorKind::exists);
  }
  EXPECT_EQ(names(folder), Names{"out"});
}

TEST(StagedFolder, ForceReplaces) {
  const TestFolder folder;
  ASSERT_TRUE(put(real_files(), folder / "out", "old", false).ok());
  ASSERT_TRUE(put(real_files(), folder / "out", "new", true).ok());
  EXPECT_EQ(got(folder / "out"), "new");
  ASSERT_TRUE(write_text(real_files(), folder / "file", "").ok());
  ASSERT_TRUE(put(real_files(), folder / "file", "new", true).ok());
  EXPECT_EQ(names(folder), (Names{"file", "out"}));
}

// Whatever call fails, with whatever count: the old output is whole, or the new one is, and nothing else lies
// about.
TEST(StagedFolder, EveryFaultLeavesOneWholeOutput) {
  for (FileCall call : {FileCall::create, FileCall::write, FileCall::close, FileCall::list,
                        FileCall::make_directories, FileCall::rename, FileCall::sync})
    for (uint64_t k = 1;; ++k) {
      const TestFolder folder;
      ASSERT_TRUE(put(real_files(), folder / "out", "old", false).ok());
      FaultyFiles files;
      files.fail(call, k, ENOSPC);
      const Status done = put(files, folder / "out", "new", true);
      EXPECT_EQ(got(folder / "out"), done.ok() ? "new" : "old");
      EXPECT_EQ(names(folder), Names{"out"});
      if (files.count(call) < k) break;  // the fault was never reached
      EXPECT_FALSE(done.ok()) << "call " << static_cast<int>(call) << ", number " << k;
    }
}

TEST(StagedFolder, RemovalThatFailsIsCaughtUpLater) {
  const TestFolder folder;
  ASSERT_TRUE(put(real_files(), folder / "out", "old", false).ok());
  FaultyFiles files;
  files.fail(FileCall::remove, 1, EIO);
  EXPECT_EQ(put(files, folder / "out", "new", true).error().kind, ErrorKind::io);
  EXPECT_EQ(got(folder / "out"), "new");
  ASSERT_TRUE(put(real_files(), folder / "out", "newer", true).ok());
  EXPECT_EQ(names(folder), Names{"out"});
}

TEST(StagedFolder, SecondProcessIsToldWhoHasIt) {
  const TestFolder folder;
  auto staged = StagedFolder::make(real_files(), folder / "out", false);
  ASSERT_TRUE(staged.ok());
  const pid_t child = ::fork();
  if (child == 0) {
    const auto second = StagedFolder::make(real_files(), folder / "out", true);
    const std::string expected = folder / fmt::format("out: the output is locked by pid {}", ::getppid());
    ::_exit(!second.ok() && second.error().message() == expected ? exit_code(second.error().kind) : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 75);
  EXPECT_TRUE(fs::exists(staged.value().path())) << "the second one cleaned up what is in use";
}

TEST(StagedFolder, StaleFoldersOfTheDeadGo) {
  const TestFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    const auto staged = StagedFolder::make(real_files(), folder / "out", false);
    ::_exit(staged.ok() ? 0 : 1);  // as if killed: no destructor runs
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_EQ(names(folder), (Names{fmt::format(".out.tandem-{}", child), ".out.tandem-lock"}));
  fs::create_directory(folder / ".out.tandem-notes");  // not ours
  fs::create_directory(folder / ".outer.tandem-1");
  ASSERT_TRUE(put(real_files(), folder / "out", "x", false).ok());
  EXPECT_EQ(names(folder), (Names{".out.tandem-notes", ".outer.tandem-1", "out"}));
}

// Killed between the two renames: the old output comes back rather than being taken for rubbish.
TEST(StagedFolder, OldOutputComesBackAfterAKill) {
  const TestFolder folder;
  ASSERT_TRUE(put(real_files(), folder / "out", "old", false).ok());
  fs::rename(folder / "out", folder / ".out.tandem-99-old");
  fs::create_directory(folder / ".out.tandem-99");
  EXPECT_EQ(StagedFolder::make(real_files(), folder / "out", false).error().kind, ErrorKind::exists);
  EXPECT_EQ(got(folder / "out"), "old");
  EXPECT_EQ(names(folder), Names{"out"});
}

}  // namespace
}  // namespace tandem
