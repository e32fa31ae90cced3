// The index's container, against stock leveldb and against damage.

#include "formats/tensor_bundle/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <leveldb/env.h>
#include <leveldb/options.h>
#include <leveldb/table_builder.h>
#include <snappy.h>

#include "base/test_folder.h"
#include "formats/tensor_bundle/testing.h"

namespace tandem {
namespace {

using tandem::testing::table_around;
using ::testing::HasSubstr;

/// The same entries through leveldb's own writer.
std::string leveldb_table(const TableEntries& entries, leveldb::CompressionType compression) {
  const TestFolder folder;
  leveldb::Options options;
  options.compression = compression;
  options.block_size = 262144;
  leveldb::WritableFile* file = nullptr;
  EXPECT_TRUE(leveldb::Env::Default()->NewWritableFile(folder / "table", &file).ok());
  leveldb::TableBuilder builder(options, file);
  for (const auto& [key, value] : entries) builder.Add(key, value);
  EXPECT_TRUE(builder.Finish().ok());
  EXPECT_TRUE(file->Close().ok());
  delete file;
  return read_text(real_files(), folder / "table").value();
}

TableEntries many_entries() {
  TableEntries entries{{"", "header"}};
  for (int i = 0; i < 20000; ++i)
    entries.emplace_back(fmt::format("model/layers/{:05}/weight", i),
                         std::string(static_cast<size_t>(i % 97), 'v'));
  return entries;
}

void expect_refused(const std::string& file, std::string_view text) {
  const auto table = read_table(file, "t.index");
  ASSERT_FALSE(table.ok()) << "expected: " << text;
  EXPECT_EQ(table.error().rule, "T4");
  EXPECT_EQ(table.error().kind, ErrorKind::corrupt);
  EXPECT_EQ(table.error().where, "t.index");
  EXPECT_THAT(table.error().text, HasSubstr(std::string(text)));
}

TEST(Table, ManyBlocksAreTheBytesThatLeveldbWrites) {
  const TableEntries entries = many_entries();
  const std::string file = write_table(entries);
  EXPECT_GT(file.size(), 3u * 262144);
  EXPECT_TRUE(file == leveldb_table(entries, leveldb::kNoCompression));
  EXPECT_EQ(read_table(file, "t").value(), entries);
}

TEST(Table, SnappyBlocksAreRead) {
  const TableEntries entries = many_entries();
  EXPECT_EQ(read_table(leveldb_table(entries, leveldb::kSnappyCompression), "t").value(), entries);
}

TEST(Table, T4DamageIsNamed) {
  const std::string good = write_table({{"", "h"}, {"a", "1"}, {"b", "2"}});
  std::string file = good;
  file.back() ^= 1;
  expect_refused(file, "magic");
  expect_refused(good.substr(1), "");
  expect_refused("short", "5 bytes");
  for (size_t at = 0; at + 48 < good.size(); ++at) {  // every byte before the footer is under a checksum
    file = good;
    file[at] ^= 0x10;
    expect_refused(file, "");
  }
}

TEST(Table, T4KeysMustIncrease) {
  using tandem::testing::from_hex;
  expect_refused(table_around(from_hex("00 01 01 62 31  00 01 01 61 32  00000000 01000000")),
                 "key 'a' follows 'b'");
  expect_refused(table_around(from_hex("00 01 01 61 31  00 01 01 61 32  00000000 01000000")),
                 "key 'a' follows 'a'");
}

TEST(Table, T4BlocksThatPromiseTooMuch) {
  using tandem::testing::from_hex;
  expect_refused(table_around(from_hex("05 01 01 62 31  00000000 01000000")),
                 "shares 5 bytes with a key of 0");
  expect_refused(table_around(from_hex("00 7f 01 62 31  00000000 01000000")), "runs past its end");
  expect_refused(table_around(from_hex("00 01 01 62 31  00000000 ffffff7f")), "2147483647 restart points");
  expect_refused(table_around(from_hex("00 01 01 62 31  00000000 03000000 02000000")),
                 "restart point 3 is no entry");
  expect_refused(table_around("x", 2), "compression type is 2");
  expect_refused(table_around(from_hex("ffffffff0f 00"), 1),
                 "snappy block claims 4294967295 bytes");  // a bomb
  // Each of these entries costs 4 bytes in the file and a 1 MB key in memory.
  std::string bomb;
  for (const uint64_t number : {0, 1'000'000, 0}) put_varint(bomb, number);
  bomb += std::string(1'000'000, 'k');
  for (int i = 0; i < 5000; ++i) {
    for (const uint64_t number : {1'000'000 + i, 1, 0}) put_varint(bomb, number);
    bomb += "a";
  }
  expect_refused(table_around(bomb + from_hex("00000000 01000000")), "holds more than 1073741824 bytes");
}

}  // namespace
}  // namespace tandem
