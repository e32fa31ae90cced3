#include "base/piece_file.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cerrno>

#include "base/fault_files.h"
#include "base/hash.h"

namespace tandem {
namespace {

std::vector<std::byte> numbered(size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i)  // no two blocks of sums are equal
    bytes[i] = static_cast<std::byte>((i * 2654435761u >> 13) + (i >> 21));
  return bytes;
}

PieceFile::Fill from(std::span<const std::byte> bytes) {
  return [bytes](uint64_t offset, std::span<std::byte> out) {
    std::copy_n(bytes.data() + offset, out.size(), out.data());
    return Status{};
  };
}

struct Way : testing::TestWithParam<bool> {
  PieceOptions options() const { return {.sha256 = true, .threads = GetParam() ? 3u : 1u}; }
};
INSTANTIATE_TEST_SUITE_P(Of, Way, testing::Bool(),
                         [](const auto& way) { return way.param ? "beside" : "inline"; });

TEST_P(Way, SumsAreThoseOfTheBytes) {
  const std::vector<std::byte> bytes = numbered(2 * kSumBlock + PieceFile::kPieceBytes + 12345);
  const std::string path = testing::TempDir() + "piece_file_sums";
  PieceFile file(real_files().create(path).value(), options());
  ASSERT_TRUE(file.append(std::span(bytes).first(7)).ok());
  const auto middle = std::span(bytes).subspan(7, bytes.size() - 8);
  ASSERT_TRUE(file.append(middle.size(), from(middle)).ok());
  ASSERT_TRUE(file.append(std::span(bytes).last(1)).ok());
  EXPECT_EQ(file.bytes(), bytes.size());
  const FileSums sums = file.close().value();
  EXPECT_EQ(sums.bytes, bytes.size());
  EXPECT_THAT(file.crcs(), testing::ElementsAre(crc32c(0, std::span(bytes).first(7)), crc32c(0, middle),
                                                crc32c(0, std::span(bytes).last(1))));
  EXPECT_EQ(sums.crc32c, crc32c(0, bytes));
  Sha256TreeHash tree;
  tree.update(bytes);
  EXPECT_EQ(sums.sha256, tree.finish());
  const auto all = std::span(bytes);
  EXPECT_THAT(sums.blocks, testing::ElementsAre(crc32c(0, all.first(kSumBlock)),
                                                crc32c(0, all.subspan(kSumBlock, kSumBlock)),
                                                crc32c(0, all.subspan(2 * kSumBlock))));
  const auto kept = read_text(real_files(), path, 1 << 30);
  EXPECT_TRUE(std::ranges::equal(as_bytes(kept.value()), bytes));
  EXPECT_EQ(sums_of(*real_files().open(path).value(), options()).value(), sums);
}

/// The sizes of the pieces that `size` bytes of rows of `row` bytes are made in.
std::vector<uint64_t> pieces_of(uint64_t size, uint64_t row) {
  PieceFile file(std::make_unique<NullFile>());
  std::vector<uint64_t> sizes;
  const auto fill = [&](uint64_t, std::span<std::byte> out) {
    sizes.push_back(out.size());
    return Status{};
  };
  EXPECT_TRUE(file.append(size, fill, row).ok());
  return sizes;
}

TEST(PieceFile, APieceIsWholeRowsAndLinesOrSquaresOfThemWhereTheyFit) {
  constexpr uint64_t kPiece = PieceFile::kPieceBytes;
  using testing::ElementsAre;
  EXPECT_THAT(pieces_of(400 * 11264, 11264),
              ElementsAre(160 * 11264, 160 * 11264, 80 * 11264));  // 186 would fit
  EXPECT_THAT(pieces_of(kPiece, kPiece / 32), ElementsAre(kPiece));
  EXPECT_THAT(pieces_of(40 * 70000, 70000), ElementsAre(24 * 70000, 16 * 70000));  // 29 would fit
  EXPECT_THAT(pieces_of(kPiece, kPiece / 8), ElementsAre(kPiece));
  EXPECT_THAT(pieces_of(10 * 280000, 280000), ElementsAre(7 * 280000, 3 * 280000));
  EXPECT_THAT(pieces_of(2 * kPiece, kPiece), ElementsAre(kPiece, kPiece));
  EXPECT_THAT(pieces_of(kPiece + 1, kPiece + 1), ElementsAre(kPiece, 1));
  EXPECT_THAT(pieces_of(kPiece + 1, ~uint64_t{0}), ElementsAre(kPiece, 1));
  EXPECT_THAT(pieces_of(kPiece + 1, 0), ElementsAre(kPiece, 1));
}

TEST(CrcsOf, AreThoseOfTheStretches) {
  const std::vector<std::byte> bytes = numbered(3'000'000);
  const std::string path = testing::TempDir() + "crcs_of";
  auto file = real_files().create(path).value();
  ASSERT_TRUE(file->append(bytes).ok());
  ASSERT_TRUE(file->close().ok());
  const auto all = std::span(bytes);
  const uint64_t ends[] = {0, 5, 2'000'005, 2'000'005, 3'000'000};
  for (const unsigned threads : {1, 3}) {
    uint64_t seen = 0;
    const auto crcs = crcs_of(*real_files().open(path).value(), ends, threads, [&](uint64_t count) {
      seen += count;
      return Status{};
    });
    EXPECT_THAT(crcs.value(),
                testing::ElementsAre(0, crc32c(0, all.first(5)), crc32c(0, all.subspan(5, 2'000'000)), 0,
                                     crc32c(0, all.subspan(2'000'005))));
    EXPECT_EQ(seen, bytes.size());
  }
}

TEST(CrcsOf, EveryFailingReadIsTold) {
  const std::string path = testing::TempDir() + "crcs_of";
  const uint64_t ends[] = {1'000'000, 2'000'000, 3'000'000};
  FaultyFiles files;
  for (uint64_t k = 1; k <= 12; ++k) {
    files.fail(FileCall::read, k, EIO);
    const auto crcs = crcs_of(*files.open(path).value(), ends, 2);
    ASSERT_FALSE(crcs.ok()) << k;
    EXPECT_THAT(crcs.error().text, testing::HasSubstr("Input/output error"));
  }
  const auto stopped = crcs_of(*real_files().open(path).value(), ends, 2,
                               [](uint64_t) { return Status(unavailable("", "stop")); });
  EXPECT_EQ(stopped.error().text, "stop");
}

TEST_P(Way, AnEmptyFileHasSumsToo) {
  PieceFile file(std::make_unique<NullFile>(), options());
  ASSERT_TRUE(file.append(0, from({})).ok());
  const FileSums sums = file.close().value();
  EXPECT_EQ(sums, (FileSums{0, 0, Sha256Tree{sha256({}), {}}, {}}));
  EXPECT_THAT(file.crcs(), testing::ElementsAre(0));
}

TEST_P(Way, EveryFailingCallOfTheFileIsTold) {
  const std::vector<std::byte> bytes = numbered(20 * PieceFile::kPieceBytes + 1);
  const std::string path = testing::TempDir() + "piece_file_faults";
  FaultyFiles files;
  for (const FileCall call : {FileCall::write, FileCall::close})
    for (uint64_t k = 1;; ++k) {
      files.fail(call, k, ENOSPC);
      PieceFile file(files.create(path).value(), options());
      const auto appended = file.append(bytes.size(), from(bytes));
      const auto closed = file.close();
      if (files.count(call) < k) {
        EXPECT_TRUE(closed.ok());
        EXPECT_EQ(k, call == FileCall::write ? 22 : 2);
        break;
      }
      ASSERT_FALSE(closed.ok()) << k;
      EXPECT_THAT(closed.error().text, testing::HasSubstr("No space left on device"));
      EXPECT_EQ(file.close().ok(), false);
    }
}

TEST_P(Way, WhatTheMakerThrowsIsAnErrorOfTheFile) {
  for (const uint64_t throws_at : {uint64_t{0}, 5 * PieceFile::kPieceBytes}) {
    PieceFile file(std::make_unique<NullFile>(), options());
    const auto fill = [&](uint64_t offset, std::span<std::byte>) -> Status {
      if (offset == throws_at) throw std::bad_alloc();
      return {};
    };
    const Status appended = file.append(9 * PieceFile::kPieceBytes, fill);
    ASSERT_FALSE(appended.ok());
    EXPECT_EQ(appended.error().kind, ErrorKind::memory);
    EXPECT_EQ(appended.error().text, "out of memory");
    EXPECT_FALSE(file.close().ok());
  }
}

TEST_P(Way, AnErrorOfTheMakerEndsIt) {
  PieceFile file(std::make_unique<NullFile>(), options());
  const auto appended = file.append(5 * PieceFile::kPieceBytes, [](uint64_t offset, std::span<std::byte>) {
    return offset > PieceFile::kPieceBytes ? Status(unavailable("", "stop")) : Status{};
  });
  ASSERT_FALSE(appended.ok());
  EXPECT_EQ(appended.error().text, "stop");
  EXPECT_EQ(file.close().error().text, "stop");
}

}  // namespace
}  // namespace tandem
