#include "base/file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/fault_files.h"
#include "base/hash.h"
#include "base/test_folder.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
const FileSystem& files = real_files();

TEST(File, WrittenBytesComeBack) {
  const TestFolder folder;
  std::string expected;
  {
    const auto file = files.create(folder / "f");
    ASSERT_TRUE(file.ok());
    // below, above and across the buffer's size
    for (size_t size : {1u, 1000u, 0u, 3u << 20, 700'000u, 700'000u, 5u}) {
      const std::string piece(size, static_cast<char>('a' + expected.size() % 26));
      ASSERT_TRUE(file.value()->append(as_bytes(piece)).ok());
      expected += piece;
    }
    ASSERT_TRUE(file.value()->close().ok());
  }
  EXPECT_EQ(read_text(files, folder / "f").value(), expected);
  const auto file = files.open(folder / "f");
  std::string middle(10, ' ');
  ASSERT_TRUE(file.value()->read(1000, std::as_writable_bytes(std::span(middle))).ok());
  EXPECT_EQ(middle, expected.substr(1000, 10));
}

TEST(File, CreateEmptiesAnOldFileButFollowsNoLink) {
  const TestFolder folder;
  ASSERT_TRUE(write_text(files, folder / "f", "long text").ok());
  ASSERT_TRUE(write_text(files, folder / "f", "x").ok());
  EXPECT_EQ(read_text(files, folder / "f").value(), "x");
  fs::create_symlink(folder / "f", folder / "link");
  EXPECT_EQ(write_text(files, folder / "link", "y").error().kind, ErrorKind::unsafe);
  EXPECT_EQ(read_text(files, folder / "f").value(), "x");
}

TEST(File, ReadPastTheEndIsCorrupt) {
  const TestFolder folder;
  ASSERT_TRUE(write_text(files, folder / "f", "12345").ok());
  const auto file = files.open(folder / "f");
  std::byte out[4];
  const auto read = file.value()->read(3, out);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().message(), folder /
                                        "f, byte 3: file_c1: 4 bytes expected here, the file ends at byte 5 "
                                        "(a download that was cut off?)");
  EXPECT_EQ(file.value()->read(~uint64_t{0}, out).error().kind, ErrorKind::corrupt);
  // Cut off while open: the size that was seen at opening no longer holds.
  fs::resize_file(folder / "f", 2);
  for (const uint64_t offset : {0, 1}) {
    const Status cut = file.value()->read(offset, out);
    EXPECT_EQ(cut.error().kind, ErrorKind::corrupt);
    EXPECT_NE(cut.error().message().find("the file ends at byte 2"), std::string::npos)
        << cut.error().message();
  }
  fs::resize_file(folder / "f", 0);
  EXPECT_NE(file.value()->read(1, out).error().message().find("ends at byte 0"), std::string::npos);
}

TEST(File, MissingIsMissing) {
  const TestFolder folder;
  const auto file = files.open(folder / "nobody");
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().kind, ErrorKind::missing);
  EXPECT_EQ(file.error().message(), folder / "nobody: cannot open: No such file or directory");
  EXPECT_EQ(files.open(folder / "nobody/f").error().kind, ErrorKind::missing);
}

TEST(File, X6OnlyRegularFilesAndNoHang) {
  const TestFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  fs::create_directory(folder / "directory");
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, (folder / "socket").c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  for (const std::string& path :
       {folder / "pipe", folder / "directory", folder / "socket", std::string("/dev/zero")}) {
    const auto file = files.open(path);
    ASSERT_FALSE(file.ok()) << path;
    EXPECT_EQ(file.error().kind, ErrorKind::unsafe) << path;
    EXPECT_EQ(file.error().rule, "X6") << path;
    EXPECT_EQ(files.create(path).error().kind, ErrorKind::unsafe) << path;
  }
  EXPECT_EQ(files.open(folder / "pipe").error().message(),
            folder / "pipe: X6: is a pipe, not a regular file");
  ::close(fd);
}

TEST(File, R5LastLinkIsFollowedOnlyWhereAsked) {
  const TestFolder folder;
  ASSERT_TRUE(write_text(files, folder / "f", "x").ok());
  fs::create_symlink("f", folder / "link");
  EXPECT_TRUE(files.open(folder / "link").ok());
  const auto file = files.open(folder / "link", false);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().message(), folder / "link: R5: is a symbolic link, which is not followed here");
}

TEST(File, KindsOfPaths) {
  const TestFolder folder;
  ASSERT_TRUE(write_text(files, folder / "f", "").ok());
  fs::create_symlink("nowhere", folder / "dangling");
  EXPECT_EQ(files.kind(folder / "f").value(), PathKind::file);
  EXPECT_EQ(files.kind(folder.path()).value(), PathKind::directory);
  EXPECT_EQ(files.kind(folder / "nobody").value(), PathKind::absent);
  EXPECT_EQ(files.kind(folder / "dangling").value(), PathKind::other);
  EXPECT_EQ(files.kind("/dev/null").value(), PathKind::other);
  EXPECT_EQ(files.list(folder.path()).value(), (std::vector<std::string>{"dangling", "f"}));
  EXPECT_EQ(files.list(folder / "nobody").error().kind, ErrorKind::missing);
}

TEST(File, R3TextHasALimit) {
  const TestFolder folder;
  ASSERT_TRUE(write_text(files, folder / "f", "12345").ok());
  EXPECT_EQ(read_text(files, folder / "f", 4).error().message(),
            folder / "f: R3: the file has 5 bytes, at most 4 are read");
}

TEST(File, FullDiskIsNamed) {
  const Error error = file_error("write", "/tmp/x/y", ENOSPC);
  EXPECT_EQ(error.kind, ErrorKind::io);
  EXPECT_EQ(error.text, "cannot write: No space left on device");
  EXPECT_TRUE(error.hint.starts_with("the disk mounted at /")) << error.hint;
  EXPECT_EQ(file_error("write", "/tmp/x", EIO).hint, "");
}

// A limit on file size makes the kernel write part of a piece, then refuse: the short write must be
// continued, the refusal reported, and the file never be called whole.
TEST(File, ShortWriteThenRefusal) {
  const TestFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{(2 << 20) + 100, (2 << 20) + 100};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const auto file = files.create(folder / "f");
    const std::vector<std::byte> bytes(3 << 20);
    const Status written = file.value()->append(bytes);
    const bool told = !written.ok() && written.error().kind == ErrorKind::io && !file.value()->close().ok() &&
                      !file.value()->append({}).ok();
    ::_exit(told ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(fs::file_size(folder / "f"), (2u << 20) + 100) << "the part that fitted was written";
}

TEST(ReplaceText, OldOrNewAndNothingBesideIt) {
  const TestFolder folder;
  ASSERT_TRUE(replace_text(real_files(), folder / "a", "old").ok());
  std::filesystem::create_symlink("a", folder / "link");
  FaultyFiles faulty;
  for (const FileCall call : {FileCall::create, FileCall::write, FileCall::close, FileCall::rename}) {
    faulty.fail(call, 1, ENOSPC);
    const Status status = replace_text(faulty, folder / "a", "new");
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(read_text(real_files(), folder / "a").value(), "old");
  }
  EXPECT_TRUE(replace_text(faulty, folder / "link", "new").ok());
  EXPECT_EQ(read_text(real_files(), folder / "a").value(), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(real_files().list(folder.path()).value(), (std::vector<std::string>{"a", "link"}));
}

TEST(ReplaceText, AFolderStays) {
  const TestFolder folder;
  const Status status = replace_text(real_files(), folder.path(), "x");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::exists);
  EXPECT_EQ(status.error().text, "is a folder");
}

TEST(File, TellsWhenItWasWritten) {
  const TestFolder folder;
  ASSERT_TRUE(write_text(real_files(), folder / "a", "1").ok());
  const int64_t first = real_files().open(folder / "a").value()->modified_ns();
  EXPECT_GT(first, 1'600'000'000'000'000'000);
  std::filesystem::last_write_time(folder / "a",
                                   std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_NE(real_files().open(folder / "a").value()->modified_ns(), first);
}

TEST(PathInside, PlainNamesPass) {
  const TestFolder folder;
  fs::create_directory(folder / "sub");
  ASSERT_TRUE(write_text(files, folder / "sub/f..x", "").ok());
  EXPECT_EQ(path_inside(files, folder.path(), "sub/f..x").value(), folder / "sub/f..x");
  EXPECT_EQ(path_inside(files, folder.path(), "not there").value(), folder / "not there");
  EXPECT_EQ(path_inside(files, folder / "nobody", "f").error().kind, ErrorKind::missing);
}

TEST(PathInside, X1NamesThatLeave) {
  const TestFolder folder;
  const std::string nul("a\0b", 3);
  for (const std::string& name :
       {std::string(), std::string("../../etc/passwd"), std::string("/etc/passwd"), std::string("a//b"),
        std::string("a/"), std::string("C:\\x"), std::string("c:x"), std::string("a\\b"), std::string("."),
        std::string("a/./b"), std::string("a/.."), nul, std::string(5000, 'a'), std::string(256, 'a')}) {
    const auto path = path_inside(files, folder.path(), name);
    ASSERT_FALSE(path.ok()) << name;
    EXPECT_EQ(path.error().kind, ErrorKind::unsafe) << name;
    EXPECT_EQ(path.error().rule, "X1") << name;
  }
  EXPECT_EQ(
      path_inside(files, folder.path(), "../x").error().message(),
      folder.path() + ": X1: the name \"../x\" has a part \".\" or \"..\": names stay inside their folder");
}

TEST(PathInside, X2LinksThatLeave) {
  const TestFolder folder;
  fs::create_directories(folder / "model");
  fs::create_directories(folder / "model-2");
  ASSERT_TRUE(write_text(files, folder / "model-2/secret", "").ok());
  ASSERT_TRUE(write_text(files, folder / "model/real", "").ok());
  fs::create_symlink("../model-2/secret", folder / "model/shard");
  fs::create_symlink("../model-2", folder / "model/parent");
  fs::create_symlink("real", folder / "model/within");
  for (const char* name : {"shard", "parent/secret"}) {
    const auto path = path_inside(files, folder / "model", name);
    ASSERT_FALSE(path.ok()) << name;
    EXPECT_EQ(path.error().kind, ErrorKind::unsafe);
    EXPECT_EQ(path.error().rule, "R5");
  }
  EXPECT_TRUE(path_inside(files, folder / "model", "within").ok());
  // The folder itself may be reached by a link: the user named it.
  fs::create_symlink("model", folder / "alias");
  EXPECT_EQ(path_inside(files, folder / "alias", "real").value(), folder / "alias/real");
}

TEST(PathInside, R6HubCacheLinksIntoItsOwnBlobs) {
  const TestFolder hub;
  for (const char* repo : {"models--a", "models--b"}) {
    fs::create_directories(hub / (std::string(repo) + "/snapshots/rev1/sub"));
    fs::create_directories(hub / (std::string(repo) + "/blobs/deeper"));
    ASSERT_TRUE(write_text(files, hub / (std::string(repo) + "/blobs/h1"), "").ok());
    ASSERT_TRUE(write_text(files, hub / (std::string(repo) + "/blobs/deeper/h2"), "").ok());
    ASSERT_TRUE(write_text(files, hub / (std::string(repo) + "/secret"), "").ok());
  }
  const std::string snapshot = hub / "models--a/snapshots/rev1";
  fs::create_symlink("../../blobs/h1", snapshot + "/own");
  fs::create_symlink("../../../blobs/h1", snapshot + "/sub/own");
  fs::create_symlink("../../../models--b/blobs/h1", snapshot + "/others");
  fs::create_symlink("../../secret", snapshot + "/beside");
  fs::create_symlink("../../blobs/deeper/h2", snapshot + "/deeper");
  fs::create_symlink("../../blobs", snapshot + "/folder");
  EXPECT_EQ(path_inside(files, snapshot, "own").value(), snapshot + "/own");
  EXPECT_TRUE(path_inside(files, snapshot, "sub/own").ok());
  EXPECT_TRUE(path_inside(files, snapshot + "/sub", "own").ok());
  for (const char* name : {"others", "beside", "deeper", "folder"})
    EXPECT_FALSE(path_inside(files, snapshot, name).ok()) << name;
}

TEST(Join, OneSlash) {
  EXPECT_EQ(join("a", "b"), "a/b");
  EXPECT_EQ(join("a/", "b"), "a/b");
  EXPECT_EQ(join("", "b"), "b");
}

}  // namespace
}  // namespace tandem
