#include "base/memory_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/hash.h"

namespace tandem {
namespace {

using Contents = std::map<std::string, std::string>;
using testing::HasSubstr;

/// Everything that a power loss now may leave, of many draws.
std::set<Contents> left(const MemoryFiles& files) {
  std::mt19937_64 random(1);
  std::set<Contents> found;
  for (int i = 0; i < 400; ++i)
    found.insert(files.after_power_loss(MemoryFiles::Survival::some, random)->contents());
  return found;
}
Contents left(const MemoryFiles& files, MemoryFiles::Survival survival) {
  std::mt19937_64 random(1);
  return files.after_power_loss(survival, random)->contents();
}

TEST(MemoryFiles, IsAFileSystem) {
  const MemoryFiles files;
  ASSERT_TRUE(files.make_directories("/a/b").ok());
  ASSERT_TRUE(write_text(files, "/a/b/f", "text").ok());
  EXPECT_EQ(read_text(files, "/a/b/f").value(), "text");
  EXPECT_EQ(files.list("/a").value(), std::vector<std::string>{"b"});
  EXPECT_EQ(files.kind("/a/b").value(), PathKind::directory);
  ASSERT_TRUE(files.rename("/a/b", "/c").ok());
  EXPECT_EQ(files.kind("/a/b").value(), PathKind::absent);
  EXPECT_EQ(read_text(files, "/c/f").value(), "text");
  EXPECT_EQ(files.rename("/a", "/c").error().message(), "/c: cannot rename: Directory not empty");
  EXPECT_EQ(files.open("/c").error().rule, "X6");
  EXPECT_EQ(files.open("/d").error().kind, ErrorKind::missing);
  EXPECT_EQ(files.create("/d/f").error().kind, ErrorKind::missing);
  EXPECT_EQ(files.create("/c").error().rule, "X6");
  std::vector<std::byte> three(3);
  EXPECT_EQ(files.open("/c/f").value()->read(2, three).error().rule, "file_c1");
  ASSERT_TRUE(files.remove_all("/c").ok());
  EXPECT_EQ(files.list("/c").error().kind, ErrorKind::missing);
  EXPECT_THAT(files.make_directories("/").ok(), true);
  EXPECT_EQ(files.contents(), Contents{});
}

TEST(MemoryFiles, NothingHappensAfterTheStop) {
  MemoryFiles files;
  ASSERT_TRUE(write_text(files, "/f", "old").ok());
  EXPECT_EQ(files.changes(), 3u);  // made, written, closed
  files.stop_at(2);
  EXPECT_THAT(write_text(files, "/f", "new").error().message(), HasSubstr("/f: cannot write"));
  EXPECT_FALSE(files.remove_all("/f").ok());
  EXPECT_EQ(read_text(files, "/f").value(), "") << "emptied, and no more";
}

TEST(MemoryFiles, AFileThatWasNotClosedMayBeTornOrGone) {
  const MemoryFiles files;
  const auto file = files.create("/f");
  ASSERT_TRUE(files.sync_directory("/").ok());
  ASSERT_TRUE(file.value()->append(as_bytes("ab")).ok());
  EXPECT_EQ(left(files, MemoryFiles::Survival::least), (Contents{{"f", ""}}));
  EXPECT_EQ(left(files, MemoryFiles::Survival::most), (Contents{{"f", "ab"}}));
  EXPECT_EQ(left(files), (std::set<Contents>{{{"f", ""}},
                                             {{"f", "a"}},
                                             {{"f", "ab"}},
                                             {{"f", std::string("\0", 1)}},
                                             {{"f", std::string("\0\0", 2)}},
                                             {{"f", std::string("a\0", 2)}}}));
  ASSERT_TRUE(file.value()->close().ok());
  EXPECT_EQ(left(files), (std::set<Contents>{{{"f", "ab"}}}));
}

TEST(MemoryFiles, ANameThatWasNotSyncedMayBeGone) {
  const MemoryFiles files;
  ASSERT_TRUE(write_text(files, "/f", "x").ok());
  EXPECT_EQ(left(files), (std::set<Contents>{{}, {{"f", "x"}}}));
  ASSERT_TRUE(files.sync_directory("/").ok());
  EXPECT_EQ(left(files), (std::set<Contents>{{{"f", "x"}}}));
  ASSERT_TRUE(files.remove_all("/f").ok());
  EXPECT_EQ(left(files), (std::set<Contents>{{}, {{"f", "x"}}}));
}

// What goes wrong without the sync of a file before its rename: the new name with the old bytes of nobody.
TEST(MemoryFiles, ARenameOfAFileThatIsNotSyncedMayLoseItsBytes) {
  const MemoryFiles files;
  ASSERT_TRUE(write_text(files, "/f", "old").ok());
  const auto file = files.create("/new");
  ASSERT_TRUE(file.value()->append(as_bytes("2")).ok());
  ASSERT_TRUE(files.rename("/new", "/f").ok());
  EXPECT_TRUE(left(files).contains(Contents{{"f", ""}}));
}

TEST(MemoryFiles, ARenameHappensInBothFoldersOrInNone) {
  MemoryFiles files;
  ASSERT_TRUE(files.make_directories("/a").ok());
  ASSERT_TRUE(files.make_directories("/b").ok());
  ASSERT_TRUE(write_text(files, "/a/f", "x").ok());
  for (const char* folder : {"/", "/a", "/b"}) ASSERT_TRUE(files.sync_directory(folder).ok());
  files.stop_at(2);  // the rename happens, and is not synced
  EXPECT_FALSE(files.rename("/a/f", "/b/g").ok());
  EXPECT_EQ(left(files), (std::set<Contents>{{{"a/f", "x"}}, {{"b/g", "x"}}}));
  files.stop_at(0);
  ASSERT_TRUE(files.sync_directory("/a").ok());
  EXPECT_EQ(left(files), (std::set<Contents>{{{"b/g", "x"}}}));
}

TEST(MemoryFiles, ARenamedFolderKeepsWhatWasSyncedInIt) {
  const MemoryFiles files;
  ASSERT_TRUE(files.make_directories("/a").ok());
  ASSERT_TRUE(write_text(files, "/a/f", "1").ok());
  ASSERT_TRUE(files.sync_directory("/a").ok());
  ASSERT_TRUE(write_text(files, "/a/g", "2").ok());
  ASSERT_TRUE(files.rename("/a", "/b").ok());
  EXPECT_EQ(left(files), (std::set<Contents>{{{"b/f", "1"}}, {{"b/f", "1"}, {"b/g", "2"}}}));
}

}  // namespace
}  // namespace tandem
