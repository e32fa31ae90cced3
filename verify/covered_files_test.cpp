#include "verify/covered_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/hash.h"
#include "base/test_folder.h"
#include "formats/safetensors/testing.h"
#include "formats/tensor_bundle/testing.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const FileSystem& files = real_files();

/// "tensor a 8+4" a region.
std::vector<std::string> in_words(const CoveredFile& file) {
  std::vector<std::string> lines;
  for (const FileRegion& region : file.regions)
    lines.push_back(fmt::format("{} {} {}+{}", name(region.kind), region.name, region.offset, region.bytes));
  return lines;
}

void write(const std::string& path, std::string_view text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  ASSERT_TRUE(write_text(files, path, text).ok());
}

CoveredFile only(const CoveredSide& side, std::string_view wanted) {
  for (const CoveredFile& file : side.files)
    if (file.name == wanted) return file;
  ADD_FAILURE() << "no " << wanted;
  return {};
}

TEST(CoveredFiles, ASafetensorsFileIsAHeaderAndItsTensors) {
  using safetensors::entry, safetensors::header_of, safetensors::file_of;
  const TestFolder folder;
  const std::string header =
      header_of({entry("b", "U8", {4}, 2, 6), entry("a", "U8", {2}, 0, 2), entry("none", "U8", {0}, 2, 2)});
  write(folder / "model.safetensors", file_of(header, "123456"));
  write(folder / "empty.safetensors", file_of("{}"));
  write(folder / "broken.safetensors", "no header");
  const auto side = cover(files, folder.path()).value();
  const uint64_t data = 8 + header.size();
  EXPECT_THAT(in_words(only(side, "model.safetensors")),
              ElementsAre(fmt::format("header  0+{}", data), fmt::format("tensor a {}+2", data),
                          fmt::format("tensor b {}+4", data + 2)));
  EXPECT_THAT(in_words(only(side, "empty.safetensors")), ElementsAre("header  0+10"));
  EXPECT_THAT(in_words(only(side, "broken.safetensors")), ElementsAre("file  0+9"));
}

TEST(CoveredFiles, ABundleIsTensorsStringsAndPadding) {
  const TestFolder folder;
  const auto writer = TensorBundleWriter::create(files, folder / "ckpt").value();
  ASSERT_TRUE(testing::add(*writer, "a/.ATTRIBUTES/VARIABLE_VALUE", DType::u8, {2}, "12").ok());
  ASSERT_TRUE(testing::add(*writer, "b..c/.ATTRIBUTES/VARIABLE_VALUE", DType::u8, {3}, "123").ok());
  ASSERT_TRUE(writer->add_string("words", "text").ok());
  ASSERT_TRUE(writer->finish().ok());
  write(folder / "config.json", "{}");
  write(folder / "notes", "not of the checkpoint");
  const auto side = cover(files, folder / "ckpt").value();
  EXPECT_EQ(side.covers, Covers::checkpoint);
  EXPECT_THAT(in_words(only(side, "ckpt.data-00000-of-00001")),
              ElementsAre("tensor a 0+2", "padding  2+62", "tensor b.c 64+3", "tensor words 67+9"));
  EXPECT_EQ(side.files.size(), 3u);
  EXPECT_EQ(only(side, "ckpt.index").regions.size(), 1u);
}

TEST(CoveredFiles, EntriesThatShareBytesAreOneRegionWithAllNames) {
  const TestFolder folder;
  write(folder / "x.index", testing::index_of({{"a", testing::float_entry({2}, 0, 8).SerializeAsString()},
                                               {"b", testing::float_entry({2}, 4, 8).SerializeAsString()},
                                               {"c", testing::float_entry({1}, 4, 4).SerializeAsString()},
                                               {"d", testing::float_entry({1}, 12, 4).SerializeAsString()}}));
  write(folder / "x.data-00000-of-00001", std::string(20, 'x'));
  const auto side = cover(files, folder / "x").value();
  EXPECT_THAT(in_words(only(side, "x.data-00000-of-00001")),
              ElementsAre("tensor a, c, b 0+12", "tensor d 12+4", "padding  16+4"));
}

TEST(CoveredFiles, FoldersAreWalkedAndLinksAreNot) {
  const TestFolder folder;
  write(folder / "config.json", "{}");
  write(folder / "sub/deep/file", "x");
  write(folder / "empty", "");
  write(folder / ".git/HEAD", "x");
  write(folder / ".cache/x", "x");
  write(folder / "sub/.cache/x", "x");
  const auto side = cover(files, folder.path() + "/").value();
  std::vector<std::string> names;
  for (const CoveredFile& file : side.files) names.push_back(file.name);
  EXPECT_THAT(names, ElementsAre("config.json", "empty", "sub/.cache/x", "sub/deep/file"));
  EXPECT_TRUE(only(side, "empty").regions.empty());
  std::filesystem::create_directory_symlink("..", folder / "sub/loop");
  const auto loop = cover(files, folder.path());
  ASSERT_FALSE(loop.ok());
  EXPECT_EQ(loop.error().kind, ErrorKind::unsafe);
}

TEST(CoveredFiles, C1ANameThatIsNotUtf8) {
  const TestFolder folder;
  write(folder / "config.json", "{}");
  write(folder / "a\xff", "x");
  EXPECT_THAT(cover(files, folder.path()).error().message(),
              HasSubstr("covered_c1: a file's name is not UTF-8"));
}

TEST(CoveredFiles, HashesOfFilesAndRegions) {
  const TestFolder folder;
  const std::string a(5'000'000, 'a'), b(9'000'000, 'b');  // more than a block
  using safetensors::entry, safetensors::header_of, safetensors::file_of;
  const std::string file = file_of(header_of({entry("a", "U8", {a.size()}, 0, a.size()),
                                              entry("b", "U8", {b.size()}, a.size(), a.size() + b.size())}),
                                   a + b);
  write(folder / "m.safetensors", file);
  write(folder / "empty", "");
  auto side = cover(files, folder.path()).value();
  uint64_t read = 0;
  ASSERT_TRUE(hash(files, side, [&](uint64_t bytes) -> Status {
                read += bytes;
                return {};
              }).ok());
  const CoveredFile found = only(side, "m.safetensors");
  EXPECT_EQ(found.sha256, sha256_hex(as_bytes(file)));
  EXPECT_EQ(found.regions[1].sha256, sha256_hex(as_bytes(a)));
  EXPECT_EQ(found.regions[2].sha256, sha256_hex(as_bytes(b)));
  EXPECT_EQ(only(side, "empty").sha256, sha256_hex({}));
  EXPECT_EQ(read, file.size());
}

TEST(CoveredFiles, C3AFileThatWasWrittenToMeanwhile) {
  const TestFolder folder;
  write(folder / "config.json", "{}");
  auto side = cover(files, folder.path()).value();
  write(folder / "config.json", "[]");
  std::filesystem::last_write_time(folder / "config.json",
                                   std::filesystem::file_time_type::clock::now() + std::chrono::seconds(2));
  const Status status = hash(files, side);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message(),
              HasSubstr("covered_c3: the file was written to while it was compared"));
}

TEST(CoveredFiles, DigestsOfAFileThatEndsTooSoon) {
  const TestFolder folder;
  write(folder / "f", "abcde");
  const auto file = files.open(folder / "f").value();
  const std::vector<FileRegion> regions{{RegionKind::tensor, "x", 0, 3, {}},
                                        {RegionKind::tensor, "y", 3, 3, {}}};
  const auto digests = digests_of(*file, regions).value();
  EXPECT_EQ(digests.whole, sha256_hex(as_bytes("abcde")));
  EXPECT_THAT(digests.regions, ElementsAre(sha256_hex(as_bytes("abc")), ""));
}

TEST(CoveredFiles, EveryKindHasItsName) {
  for (const RegionKind kind :
       {RegionKind::tensor, RegionKind::header, RegionKind::padding, RegionKind::file})
    EXPECT_EQ(region_kind_named(name(kind)), kind);
  for (const Covers covers : {Covers::folder, Covers::file, Covers::checkpoint})
    EXPECT_EQ(covers_named(name(covers)), covers);
  EXPECT_FALSE(covers_named("x"));
}

}  // namespace
}  // namespace tandem
