#include "base/file_window.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <vector>

#include "base/fault_files.h"
#include "base/test_folder.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kSize = 300'001;  // no multiple of a page
constexpr uint64_t kOffset = 5003;   // neither

char byte_at(uint64_t i) { return static_cast<char>(1 + i % 251); }

/// A file of bytes that are not zero, each unlike those a page further.
class Window : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string text(kSize, 0);
    for (uint64_t i = 0; i < kSize; ++i) text[i] = byte_at(i);
    ASSERT_TRUE(write_text(real_files(), path_, text).ok());
    file_ = real_files().open(path_).value();
  }
  void cut_at(uint64_t size) const { std::filesystem::resize_file(path_, size); }
  static void expect_bytes_of(const FileWindow& window, uint64_t offset, uint64_t size) {
    for (uint64_t i = 0; i < size; ++i)
      ASSERT_EQ(static_cast<char>(window.bytes()[i]), byte_at(offset + i)) << i;
  }
  const TestFolder folder_;
  const std::string path_ = folder_ / "file";
  std::unique_ptr<ReadableFile> file_;
};

TEST_F(Window, HasTheBytesOfAnyRange) {
  for (const auto& [offset, size] : std::vector<std::pair<uint64_t, uint64_t>>{
           {0, kSize}, {kOffset, kSize - kOffset}, {4096, 4096}, {kSize - 1, 1}}) {
    const auto window = file_->window(offset, size);
    ASSERT_NE(window, nullptr);
    ASSERT_TRUE(window->load(0, size).ok());
    ASSERT_TRUE(window->load(size / 2, size - size / 2).ok());
    expect_bytes_of(*window, offset, size);
    EXPECT_TRUE(window->intact().ok());
  }
}

TEST_F(Window, ThereIsNoneBeyondTheFileAndNoneOfNothing) {
  EXPECT_EQ(file_->window(0, 0), nullptr);
  EXPECT_EQ(file_->window(1, kSize), nullptr);
  EXPECT_EQ(file_->window(kSize + 1, 1), nullptr);
  EXPECT_EQ(file_->window(UINT64_MAX, 2), nullptr);
  EXPECT_EQ(file_->window(2, UINT64_MAX), nullptr);
}

TEST_F(Window, WhereNoMoreAreToBeHadTheFileIsRead) {
  std::vector<std::unique_ptr<FileWindow>> windows;
  while (auto window = file_->window(kOffset, 4096)) {
    windows.push_back(std::move(window));
    ASSERT_LT(windows.size(), 1000u);
  }
  EXPECT_GT(windows.size(), 8u);
  windows.pop_back();
  EXPECT_NE(file_->window(kOffset, 4096), nullptr);
}

// Wherever it is cut: whole pages of the window that are gone, a part of its last page, a part of a page in
// its midst.
TEST_F(Window, AFileThatWasCutOffIsFoundAsItIsLoaded) {
  for (const uint64_t end : {kSize - 1, kSize - 5000, uint64_t{20'000}, uint64_t{8192}, uint64_t{0}}) {
    SetUp();
    const auto window = file_->window(kOffset, kSize - kOffset);
    cut_at(end);
    const Status failed = window->load(10'000, kSize - kOffset - 10'000);
    ASSERT_FALSE(failed.ok()) << end;
    EXPECT_EQ(failed.error().rule, "file_c1");
    EXPECT_EQ(failed.error().kind, ErrorKind::corrupt);
    EXPECT_THAT(failed.error().message(), HasSubstr(fmt::format("the file ends at byte {}", end)));
    EXPECT_THAT(failed.error().message(), HasSubstr(path_));
  }
}

TEST_F(Window, BytesThatTheFileLosesLaterAreZerosAndNotIntact) {
  const auto window = file_->window(kOffset, kSize - kOffset);
  const auto before = file_->window(0, 4096);
  ASSERT_TRUE(window->load(0, kSize - kOffset).ok());
  cut_at(50'000);
  expect_bytes_of(*window, kOffset, 40'000);
  const std::byte* const lost = window->bytes() + 60'000 - kOffset;
  EXPECT_TRUE(
      std::all_of(lost, window->bytes() + kSize - kOffset, [](std::byte b) { return b == std::byte{}; }));
  ASSERT_FALSE(window->intact().ok());
  EXPECT_THAT(window->intact().error().message(), HasSubstr("the file ends at byte 50000"));
  EXPECT_TRUE(before->intact().ok()) << "another window on it still has all";
}

// The file grows again behind our back: zeros were seen, so that stays.
TEST_F(Window, WhatWasLostOnceStaysLost) {
  const auto window = file_->window(0, kSize);
  cut_at(50'000);
  EXPECT_EQ(window->bytes()[100'000], std::byte{});
  cut_at(kSize);
  ASSERT_FALSE(window->intact().ok());
  EXPECT_EQ(window->intact().error().kind, ErrorKind::io);
  EXPECT_FALSE(window->load(0, 1).ok());
}

TEST_F(Window, ABusErrorOfSomebodyElseStillKills) {
  const auto window = file_->window(0, kSize);
  ASSERT_NE(window, nullptr);
  const auto fall = [&] {
    ::signal(SIGALRM, SIG_DFL);
    ::alarm(20);  // a handler that only returned would fall again and again
    const std::string other = folder_ / "other";
    (void)write_text(real_files(), other, std::string(8192, 'x'));
    const int fd = ::open(other.c_str(), O_RDONLY);
    const auto* bytes = static_cast<volatile char*>(::mmap(nullptr, 8192, PROT_READ, MAP_SHARED, fd, 0));
    (void)::truncate(other.c_str(), 0);
    ::_exit(bytes[5000] == 'x' ? 0 : 1);
  };
  EXPECT_EXIT(
      fall(),
      [](int status) { return !WIFEXITED(status) ? WTERMSIG(status) != SIGALRM : WEXITSTATUS(status) != 0; },
      "");
}

TEST_F(Window, LoadingCountsAsReading) {
  const FaultyFiles faulty;
  const auto file = faulty.open(path_).value();
  const auto window = file->window(kOffset, 100);
  ASSERT_TRUE(window->load(0, 100).ok());
  expect_bytes_of(*window, kOffset, 100);
  EXPECT_EQ(faulty.count(FileCall::read), 1u);
  FaultyFiles failing;
  failing.fail(FileCall::read, 2, EIO);
  const auto other = failing.open(path_).value();
  const auto second = other->window(kOffset, 100);
  EXPECT_TRUE(second->load(0, 100).ok());
  EXPECT_EQ(second->load(0, 100).error().kind, ErrorKind::io);
}

}  // namespace
}  // namespace tandem
