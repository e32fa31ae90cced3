#include "base/fault_files.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>

#include "base/hash.h"
#include "base/test_folder.h"

namespace tandem {
namespace {

TEST(FaultyFiles, TheKthCallFailsAndNoOther) {
  const TestFolder folder;
  FaultyFiles files;
  files.fail(FileCall::create, 2, EIO);
  EXPECT_TRUE(write_text(files, folder / "a", "").ok());
  EXPECT_EQ(write_text(files, folder / "b", "").error().message(),
            folder / "b: cannot create: Input/output error");
  EXPECT_TRUE(write_text(files, folder / "c", "").ok());
  EXPECT_EQ(files.count(FileCall::create), 3u);
  EXPECT_EQ(files.list(folder.path()).value(), (std::vector<std::string>{"a", "c"}));
}

TEST(FaultyFiles, AFailingWriteLeavesHalf) {
  const TestFolder folder;
  FaultyFiles files;
  files.fail(FileCall::write, 2, ENOSPC);
  const auto file = files.create(folder / "f");
  ASSERT_TRUE(file.value()->append(as_bytes("1234")).ok());
  const Status written = file.value()->append(as_bytes("5678"));
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().kind, ErrorKind::io);
  EXPECT_FALSE(file.value()->close().ok()) << "such a file is never closed with success";
  EXPECT_EQ(read_text(files, folder / "f").value(), "123456");
}

TEST(FaultyFiles, ReadsFailForGoodWhereAsked) {
  const TestFolder folder;
  FaultyFiles files;
  ASSERT_TRUE(write_text(files, folder / "f", "x").ok());
  files.fail(FileCall::read, 1, EIO, true);
  EXPECT_EQ(read_text(files, folder / "f").error().kind, ErrorKind::io);
  EXPECT_EQ(read_text(files, folder / "f").error().kind, ErrorKind::io);
}

TEST(FaultyFiles, EveryKindOfCallCanFail) {
  const TestFolder folder;
  FaultyFiles files;
  ASSERT_TRUE(write_text(files, folder / "f", "x").ok());
  const auto fails = [&](FileCall call, const auto& action) {
    files.fail(call, 1, EIO);
    return !action().ok();
  };
  EXPECT_TRUE(fails(FileCall::open, [&] { return files.open(folder / "f"); }));
  EXPECT_TRUE(fails(FileCall::close, [&] { return write_text(files, folder / "g", ""); }));
  EXPECT_TRUE(fails(FileCall::list, [&] { return files.list(folder.path()); }));
  EXPECT_TRUE(fails(FileCall::make_directories, [&] { return files.make_directories(folder / "d"); }));
  EXPECT_TRUE(fails(FileCall::rename, [&] { return files.rename(folder / "f", folder / "h"); }));
  EXPECT_TRUE(fails(FileCall::remove, [&] { return files.remove_all(folder / "f"); }));
  EXPECT_TRUE(fails(FileCall::sync, [&] { return files.sync_directory(folder.path()); }));
  EXPECT_TRUE(std::filesystem::exists(folder / "f"));
}

}  // namespace
}  // namespace tandem
