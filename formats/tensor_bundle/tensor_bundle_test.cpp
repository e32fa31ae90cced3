#include "formats/tensor_bundle/tensor_bundle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/test_folder.h"
#include "formats/tensor_bundle/index.h"
#include "formats/tensor_bundle/testing.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace tandem::testing;

const FileSystem& kFiles = real_files();

void write(const std::string& path, std::string_view bytes) {
  ASSERT_TRUE(write_text(kFiles, path, bytes).ok());
}

/// A bundle of one data file and the given index, opened.
Result<std::unique_ptr<TensorBundle>> open_with(const TestFolder& folder, const std::string& index,
                                                const std::string& data) {
  write(folder / "v.index", index);
  write(folder / "v.data-00000-of-00001", data);
  return TensorBundle::open(kFiles, folder / "v");
}

void expect_refused(const Result<std::unique_ptr<TensorBundle>>& opened, std::string_view rule,
                    const std::string& text) {
  ASSERT_FALSE(opened.ok()) << "expected " << rule << ": " << text;
  EXPECT_EQ(opened.error().rule, rule) << opened.error().message();
  EXPECT_THAT(opened.error().message(), HasSubstr(text));
}

TEST(TensorBundle, WorkedBytes) {
  const TestFolder folder;
  auto writer = TensorBundleWriter::create(kFiles, folder / "v").value();
  const std::string key = value_key("v");
  ASSERT_TRUE(add(*writer, key, DType::f32, {2}, from_hex("0000803f 00000040")).ok());
  ASSERT_TRUE(writer->add_string(std::string(kObjectGraphKey), object_graph({{"v", key}})).ok());
  ASSERT_TRUE(writer->finish().ok());
  EXPECT_EQ(read_text(kFiles, folder / "v.data-00000-of-00001").value(),
            from_hex("0000803f00000040 46 e03927af 0a0b 0a0508011201 76 2a020801 0a37 1231 0a0e") +
                "VARIABLE_VALUE" + from_hex("1201") + "v" + from_hex("1a1c") +
                "v/.ATTRIBUTES/VARIABLE_VALUE" + from_hex("2a020801"));
  EXPECT_EQ(read_text(kFiles, folder / "v.index").value(),
            from_hex("000006 08011a020801 001c0d") + "_CHECKPOINTABLE_OBJECT_GRAPH" +
                from_hex("08071200 2008 284b 35d25867f8 001c0f") + "v/.ATTRIBUTES/VARIABLE_VALUE" +
                from_hex("0801 120412020802 2808 35593ce535 00000000 01000000 00 1202 52a6"
                         "00000000 01000000 00 c0f2a1b0 000102 77 006b 00000000 01000000 00 b95fa82b"
                         "7008 7d0e") +
                std::string(36, '\0') + from_hex("57fb808b247547db"));
  const auto bundle = TensorBundle::open(kFiles, folder / "v").value();
  ASSERT_EQ(bundle->tensors().size(), 1u);
  EXPECT_EQ(bundle->tensors()[0].name, "v");
  EXPECT_EQ(read_all(*bundle, bundle->tensors()[0]), from_hex("0000803f 00000040"));
  EXPECT_TRUE(bundle->verify_checksums().ok());
}

TEST(TensorBundle, C08ScalarsAndEmptyTensorsKeepTheirShape) {
  const TestFolder folder;
  auto writer = TensorBundleWriter::create(kFiles, folder / "v").value();
  const std::vector<Shape> shapes{{}, {0}, {3, 0, 2}, {1}};
  for (size_t i = 0; i < shapes.size(); ++i)
    ASSERT_TRUE(add(*writer, fmt::format("t{}", i), DType::f32, shapes[i], std::string(4, 'x')).ok());
  ASSERT_TRUE(writer->finish().ok());
  const auto bundle = TensorBundle::open(kFiles, folder / "v").value();
  ASSERT_EQ(bundle->tensors().size(), shapes.size());
  for (size_t i = 0; i < shapes.size(); ++i) EXPECT_EQ(bundle->tensors()[i].shape, shapes[i]);
  EXPECT_TRUE(bundle->verify_checksums().ok());
}

TEST(TensorBundle, D01AllBf16PatternsCross) {
  std::string patterns;
  for (int i = 0; i < 65536; ++i) patterns.append({static_cast<char>(i), static_cast<char>(i >> 8)});
  const TestFolder folder;
  auto writer = TensorBundleWriter::create(kFiles, folder / "v").value();
  ASSERT_TRUE(add(*writer, "first", DType::u8, {3}, "abc").ok());
  ASSERT_TRUE(add(*writer, "w", DType::bf16, {256, 256}, patterns).ok());
  ASSERT_TRUE(writer->finish().ok());
  EXPECT_EQ(read_text(kFiles, folder / "v.data-00000-of-00001").value().substr(64),
            patterns);  // aligned to 64 bytes
  const auto bundle = TensorBundle::open(kFiles, folder / "v").value();
  EXPECT_EQ(bundle->tensors()[1].dtype, DType::bf16);
  EXPECT_TRUE(read_all(*bundle, bundle->tensors()[1]) == patterns);
  std::string part(3, '\0');
  ASSERT_TRUE(bundle->read("w", 1001, std::as_writable_bytes(std::span(part))).ok());
  EXPECT_EQ(part, patterns.substr(1001, 3));
}

TEST(TensorBundle, AFlippedWeightBitIsFoundAndNamed) {
  const TestFolder folder;
  auto writer = TensorBundleWriter::create(kFiles, folder / "v").value();
  ASSERT_TRUE(add(*writer, "w", DType::f32, {2}, "12345678").ok());
  ASSERT_TRUE(writer->finish().ok());
  write(folder / "v.data-00000-of-00001", "12345679");
  const auto verified = TensorBundle::open(kFiles, folder / "v").value()->verify_checksums();
  ASSERT_FALSE(verified.ok());
  EXPECT_THAT(verified.error().message(),
              HasSubstr("v.data-00000-of-00001: w: T5: the checksum of bytes 0 to 8"));
}

TEST(TensorBundle, T4ShardIdsOutOfRange) {
  const TestFolder folder;
  expect_refused(
      open_with(folder, index_of({{"w", float_entry({2}, 0, 8, 1'000'000'000).SerializeAsString()}}),
                "12345678"),
      "T4", "v.index: w: T4: shard id 1000000000 is not among the 1 shards");
  expect_refused(open_with(folder, index_of({}, 1'000'000'000), ""), "T4", "claims 1000000000 data shards");
  expect_refused(open_with(folder, write_table({{"a", "b"}}), ""), "T4", "no header entry");
  expect_refused(open_with(folder, index_of({{"w", "\xff"}}), ""), "T4", "'w' is no BundleEntryProto");
}

TEST(TensorBundle, T5EntriesPastTheirShard) {
  const TestFolder folder;
  const auto refused = [&](const tensorflow::BundleEntryProto& entry, const std::string& text) {
    expect_refused(open_with(folder, index_of({{"w", entry.SerializeAsString()}}), "12345678"), "T5", text);
  };
  refused(float_entry({2}, 1, 8), "'w' takes bytes 1 to 9, the file has 8");
  refused(float_entry({2}, INT64_MAX, 8), "the file has 8");
  refused(float_entry({2}, -1, 8), "offset -1");
  refused(float_entry({3}, 0, 8), "f32[3] needs 12 bytes, the entry has 8");
  auto negative = float_entry({2}, 0, 8);
  negative.mutable_shape()->mutable_dim(0)->set_size(-1);
  refused(negative, "an axis of the shape is -1");
  expect_refused(
      open_with(folder, index_of({{"w", float_entry({1ull << 40, 1ull << 40}, 0, 8).SerializeAsString()}}),
                ""),
      "shape_c1", "");
}

TEST(TensorBundle, C09BigEndianIsRefusedByName) {
  const TestFolder folder;
  expect_refused(open_with(folder, index_of({}, 1, tensorflow::BundleHeaderProto::BIG), ""), "C09",
                 "big-endian");
}

/// Rows 0..1 and 2..3 of w [4, 2], in two shards.
TableEntries partitioned() {
  auto whole = float_entry({4, 2}, 0, 0);
  TableEntries entries;
  for (int i = 0; i < 2; ++i) {
    auto* slice = whole.add_slices();
    slice->add_extent()->set_start(2 * i);
    slice->mutable_extent(0)->set_length(2);
    slice->add_extent();
    entries.emplace_back(slice_key("w", *slice), float_entry({2, 2}, 0, 16, i).SerializeAsString());
  }
  entries.emplace_back("w", whole.SerializeAsString());
  return entries;
}

TEST(TensorBundle, PartitionedTensorsInTwoShards) {
  const TestFolder folder;
  const TableEntries entries = partitioned();
  EXPECT_EQ(entries[0].first, from_hex("00 77 0001 0102 8082 807f"));
  write(folder / "v.index", index_of(entries, 2));
  write(folder / "v.data-00000-of-00002", "0123456789abcdef");
  const auto incomplete = TensorBundle::open(kFiles, folder / "v");
  ASSERT_FALSE(incomplete.ok());
  EXPECT_EQ(incomplete.error().kind, ErrorKind::missing);
  EXPECT_THAT(incomplete.error().message(), HasSubstr("v.data-00001-of-00002"));
  write(folder / "v.data-00001-of-00002", "ghijklmnopqrstuv");
  const auto bundle = TensorBundle::open(kFiles, folder / "v").value();
  ASSERT_EQ(bundle->tensors().size(), 1u);
  EXPECT_EQ(read_all(*bundle, bundle->tensors()[0]), "0123456789abcdefghijklmnopqrstuv");
  std::string part(8, '\0');
  ASSERT_TRUE(bundle->read("w", 12, std::as_writable_bytes(std::span(part))).ok());
  EXPECT_EQ(part, "cdefghij");
}

TEST(TensorBundle, ExtentsOfSlicesNameTheirBoxes) {
  const TestFolder folder;
  write(folder / "v.index", index_of(partitioned(), 2));
  write(folder / "v.data-00000-of-00002", "0123456789abcdef");
  write(folder / "v.data-00001-of-00002", "ghijklmnopqrstuv");
  const auto extents = TensorBundle::open(kFiles, folder / "v").value()->extents();
  ASSERT_EQ(extents.size(), 2u);
  EXPECT_EQ(extents[1].name, "w[2:4,0:2]");
  EXPECT_EQ(extents[1].file, folder / "v.data-00001-of-00002");
  EXPECT_EQ(extents[1].offset, 0u);
  EXPECT_EQ(extents[1].bytes, 16u);
}

TEST(TensorBundle, SlicesOfColumnsAreInterleaved) {
  auto whole = float_entry({2, 2}, 0, 0);
  TableEntries entries;
  for (int i = 0; i < 2; ++i) {
    auto* slice = whole.add_slices();
    slice->add_extent();
    slice->add_extent()->set_start(i);
    slice->mutable_extent(1)->set_length(1);
    entries.emplace_back(slice_key("w", *slice), float_entry({2, 1}, 8 * i, 8).SerializeAsString());
  }
  entries.emplace_back("w", whole.SerializeAsString());
  const TestFolder folder;
  const auto bundle = open_with(folder, index_of(entries), "aaaabbbbccccdddd").value();
  EXPECT_EQ(read_all(*bundle, bundle->tensors()[0]), "aaaaccccbbbbdddd");
}

TEST(TensorBundle, T5SlicesThatDoNotFit) {
  const TestFolder folder;
  auto entries = partitioned();
  entries[1].second = float_entry({1, 2}, 0, 8, 0).SerializeAsString();  // smaller than its slice
  expect_refused(open_with(folder, index_of(entries, 2), ""), "T5",
                 "a slice of shape [2, 2] is stored as [1, 2]");
  entries = partitioned();
  entries.erase(entries.begin());
  expect_refused(open_with(folder, index_of(entries, 2), ""), "T5",
                 "the slice [2, 2] from [0, 0] has no entry");
  auto whole = float_entry({4, 2}, 0, 0);
  auto* slice = whole.add_slices();
  slice->add_extent()->set_length(2);
  slice->add_extent();
  entries = {{slice_key("w", *slice), float_entry({2, 2}, 0, 16).SerializeAsString()},
             {"w", whole.SerializeAsString()}};
  expect_refused(open_with(folder, index_of(entries), std::string(16, 'x')), "T5",
                 "the slices cover 4 of 8 elements");
}

TEST(TensorBundle, LargeNumbersInSliceKeys) {
  tensorflow::TensorSliceProto slice;
  slice.add_extent()->set_start(64);
  slice.mutable_extent(0)->set_length(8192);
  EXPECT_EQ(slice_key("w", slice), from_hex("00 77 0001 0101 c040 e02000"));
}

TEST(TensorBundle, C24EveryNameOfACheckpointFindsIt) {
  const TestFolder folder;
  ASSERT_TRUE(
      open_with(folder, index_of({{"w", float_entry({2}, 0, 8).SerializeAsString()}}), "12345678").ok());
  for (const char* name : {"v", "v.index", "v.data-00000-of-00001", ""})
    EXPECT_TRUE(TensorBundle::open(kFiles, folder / name).ok()) << name;
  write(folder / "older.index", index_of({}));
  expect_refused(TensorBundle::open(kFiles, folder.path()), "C24", "2 checkpoints in this folder");
  for (const char* path : {"v", "/somewhere/else/v"}) {
    write(folder / "checkpoint",
          fmt::format("model_checkpoint_path: \"{}\"\nall_model_checkpoint_paths: \"older\"\n", path));
    const auto opened = TensorBundle::open(kFiles, folder.path());
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    EXPECT_EQ(opened.value()->tensors().size(), 1u);
  }
  write(folder / "checkpoint", "model_checkpoint_path: \"../v\"\n");
  const auto outside = TensorBundle::open(kFiles, folder.path());
  ASSERT_FALSE(outside.ok());
  EXPECT_EQ(outside.error().kind, ErrorKind::unsafe);
}

TEST(TensorBundle, C26TheIndexIsMissing) {
  const TestFolder folder;
  write(folder / "v.data-00000-of-00001", "12345678");
  expect_refused(TensorBundle::open(kFiles, folder / "v"), "C26", "v.index");
  expect_refused(TensorBundle::open(kFiles, folder / "v.data-00000-of-00001"), "C26",
                 "v.index does not exist");
}

TEST(TensorBundle, WithoutAGraphTensorsAreNamedByKey) {
  const TestFolder folder;
  const auto entry = float_entry({}, 0, 4).SerializeAsString();
  const auto bundle =
      open_with(folder, index_of({{"a/b..c/.ATTRIBUTES/VARIABLE_VALUE", entry}, {"plain/key", entry}}),
                "1234")
          .value();
  std::vector<std::string> names;
  for (const TensorInfo& tensor : bundle->tensors()) names.push_back(tensor.name);
  EXPECT_THAT(names, ElementsAre("a/b.c", "plain/key"));
  EXPECT_FALSE(bundle->has_object_graph());
}

}  // namespace
}  // namespace tandem
