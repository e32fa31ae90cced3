#include "formats/hf_folder/hf_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "formats/safetensors/testing.h"

namespace tandem {
namespace {

using safetensors::entry;
using safetensors::file_of;
using safetensors::header_of;
using safetensors::padded;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kA =
    file_of(padded(header_of({entry("a.0", "U8", {2}, 0, 2), entry("a.10", "U8", {1}, 2, 3)})), "123");
const std::string kB = file_of(padded(header_of({entry("a.2", "U8", {2}, 0, 2)})), "xy");
const std::string kIndex =
    R"({"metadata": {"total_size": 5}, "weight_map": {"a.0": "A.safetensors", "a.10": "A.safetensors", "a.2": "B.safetensors"}})";

/// A fresh folder for one test.
class HfFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = std::string(TANDEM_BINARY_DIR) + "/scratch/hf_folder/" + test;
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void put(const std::string& name, std::string_view text) {
    ASSERT_TRUE(write_text(real_files(), join(folder_, name), text).ok());
  }
  void put_two_shards() {
    put("config.json", R"({"model_type": "llama"})");
    put("A.safetensors", kA);
    put("B.safetensors", kB);
    put("model.safetensors.index.json", kIndex);
  }
  /// An index that sends all three tensors where `shard` (JSON text) says.
  void put_index_to(const std::string& shard) {
    put("model.safetensors.index.json", R"({"weight_map": {"a.0": ")" + shard + R"("}})");
  }
  Result<std::unique_ptr<HfFolder>> open(const std::string& name = "") {
    return HfFolder::open(real_files(), name.empty() ? folder_ : join(folder_, name), {});
  }
  Error refused(const std::string& name = "") {
    auto result = open(name);
    if (!result.ok()) return result.error();
    ADD_FAILURE() << "the folder was opened";
    return {};
  }
  std::string folder_;
};

std::string text_of(const TensorSource& source, std::string_view tensor) {
  const TensorInfo* info = source.find(tensor);
  if (!info) return "(none)";
  std::string text(byte_count(info->dtype, info->shape).value(), '\0');
  const Status read = source.read(tensor, 0, std::as_writable_bytes(std::span(text)));
  return read.ok() ? text : read.error().message();
}

TEST_F(HfFolderTest, ShardsAreOneSourceInCanonicalOrder) {
  put_two_shards();
  put("tokenizer.json", "{}");
  put("notes.txt", "");
  const auto folder = open();
  ASSERT_TRUE(folder.ok()) << folder.error().message();
  const HfFolder& f = *folder.value();
  std::vector<std::string> names;
  for (const TensorInfo& tensor : f.tensors()) names.push_back(tensor.name);
  EXPECT_THAT(names, ElementsAre("a.0", "a.2", "a.10"));
  EXPECT_EQ(text_of(f, "a.0") + text_of(f, "a.2") + text_of(f, "a.10"), "12xy3");
  EXPECT_THAT(f.shards(), ElementsAre("A.safetensors", "B.safetensors"));
  EXPECT_EQ(f.weight_map().at("a.2"), "B.safetensors");
  EXPECT_THAT(f.location("a.2"), HasSubstr("B.safetensors, bytes "));
  EXPECT_EQ(f.config()["model_type"], "llama");
  EXPECT_EQ(f.config_text(), R"({"model_type": "llama"})");
  EXPECT_THAT(f.side_files(), ElementsAre("config.json", "tokenizer.json"));
  EXPECT_TRUE(f.remarks().empty());
  std::byte byte;
  EXPECT_EQ(f.read("b", 0, std::span(&byte, 1)).error().kind, ErrorKind::missing);
}

TEST_F(HfFolderTest, SingleFileAsFolderAndAsPath) {
  put("model.safetensors", kA);
  for (const char* name : {"", "model.safetensors"}) {
    const auto folder = open(name);
    ASSERT_TRUE(folder.ok()) << folder.error().message();
    EXPECT_EQ(text_of(*folder.value(), "a.10"), "3");
    EXPECT_EQ(folder.value()->weight_map().at("a.0"), "model.safetensors");
    EXPECT_TRUE(folder.value()->config_text().empty());
  }
}

TEST_F(HfFolderTest, NoWeights) {
  EXPECT_EQ(refused("absent").kind, ErrorKind::missing);
  EXPECT_THAT(refused().text, HasSubstr("neither model.safetensors nor model.safetensors.index.json"));
  put("config.json", "{}");
  const auto headers = HfFolder::open(real_files(), folder_, {.limits = {}, .allow_no_weights = true});
  ASSERT_TRUE(headers.ok());
  EXPECT_FALSE(headers.value()->has_weights());
  EXPECT_TRUE(headers.value()->tensors().empty());
  put("model-00001-of-00002.safetensors", kA);
  EXPECT_THAT(refused().message(),
              HasSubstr("only model-00001-of-00002.safetensors (shards need their index"));
}

TEST_F(HfFolderTest, BrokenConfigIsNamed) {
  put("model.safetensors", kA);
  put("config.json", R"({"a": 1, "a": 2})");
  EXPECT_EQ(refused().rule, "json_c3");
  EXPECT_THAT(refused().where, HasSubstr("config.json"));
}

TEST_F(HfFolderTest, X1ShardNameThatIsNoPlainFileName) {
  for (const std::string& shard :
       {std::string("../../etc/passwd"), std::string("/etc/passwd"), std::string("a//b.safetensors"),
        std::string("a/b.safetensors"), std::string("C:\\\\x.safetensors"),
        std::string("x\\u0000.safetensors"), std::string(), std::string(".."),
        std::string(5000, 'x') + ".safetensors"}) {
    put_index_to(shard);
    const Error error = refused();
    EXPECT_EQ(error.kind, ErrorKind::unsafe) << shard;
    EXPECT_EQ(error.rule, "X1") << shard;
    EXPECT_THAT(error.text, HasSubstr("is not a plain file name"));
    EXPECT_THAT(error.where, HasSubstr("model.safetensors.index.json"));
  }
}

TEST_F(HfFolderTest, C10cShardOutsideTheFolder) {
  put_index_to("../x.safetensors");
  EXPECT_EQ(refused().kind, ErrorKind::unsafe);
  EXPECT_THAT(refused().text, HasSubstr(R"("../x.safetensors" is not a plain file name)"));
}

TEST_F(HfFolderTest, X2ShardIsALinkToOutside) {
  put_two_shards();
  const std::string outside = folder_ + "_outside.safetensors";
  ASSERT_TRUE(write_text(real_files(), outside, kB).ok());
  std::filesystem::remove(join(folder_, "B.safetensors"));
  std::filesystem::create_symlink(outside, join(folder_, "B.safetensors"));
  EXPECT_EQ(refused().kind, ErrorKind::unsafe);
  EXPECT_THAT(refused().message(), HasSubstr("B.safetensors: R5: a symbolic link leads out of the folder"));
}

TEST_F(HfFolderTest, X2SingleFileAndConfigToo) {
  put("model.safetensors", kA);
  std::filesystem::create_symlink("/etc/hostname", join(folder_, "config.json"));
  EXPECT_EQ(refused().kind, ErrorKind::unsafe);
  std::filesystem::remove(join(folder_, "config.json"));
  const std::string outside = folder_ + "_outside.safetensors";
  std::filesystem::rename(join(folder_, "model.safetensors"), outside);
  std::filesystem::create_symlink(outside, join(folder_, "model.safetensors"));
  EXPECT_EQ(refused().kind, ErrorKind::unsafe);
}

TEST_F(HfFolderTest, X2HubCacheLinksAreFollowed) {
  const std::string snapshot = folder_ + "/models--x--y/snapshots/abc";
  std::filesystem::create_directories(snapshot);
  std::filesystem::create_directories(folder_ + "/models--x--y/blobs");
  put("models--x--y/blobs/0123", kA);
  std::filesystem::create_symlink("../../blobs/0123", snapshot + "/model.safetensors");
  const auto folder = HfFolder::open(real_files(), snapshot, {});
  ASSERT_TRUE(folder.ok()) << folder.error().message();
  EXPECT_EQ(text_of(*folder.value(), "a.10"), "3");
}

TEST_F(HfFolderTest, X4EveryDifferenceInOneReport) {
  put("A.safetensors", file_of(header_of({entry("a", "U8", {1}, 0, 1), entry("both", "U8", {1}, 1, 2),
                                          entry("extra", "U8", {1}, 2, 3)}),
                               "123"));
  put("B.safetensors",
      file_of(header_of({entry("both", "U8", {1}, 0, 1), entry("moved", "U8", {1}, 1, 2)}), "12"));
  put("C.safetensors", file_of(header_of({entry("c", "U8", {2}, 0, 2)}), "1"));
  put("model.safetensors.index.json", R"({"weight_map": {"a": "A.safetensors", "both": "A.safetensors",
      "moved": "A.safetensors", "gone": "B.safetensors", "c": "C.safetensors", "d": "D.safetensors", "e": "D.safetensors"}})");
  const Error error = refused();
  EXPECT_EQ(error.kind, ErrorKind::corrupt);
  EXPECT_EQ(error.rule, "X4");
  EXPECT_THAT(error.text, HasSubstr("index and shards differ in 6 places: "));
  EXPECT_THAT(error.text, HasSubstr(R"(shard "C.safetensors" cannot be read: )"));
  EXPECT_THAT(error.text, HasSubstr(R"(S10: tensor "c" is cut off)"));
  EXPECT_THAT(error.text, HasSubstr(R"(shard "D.safetensors" is missing, which holds 2 tensors: "d", "e")"));
  EXPECT_THAT(error.text, HasSubstr(R"(tensor "both" is in two shards, A.safetensors and B.safetensors)"));
  EXPECT_THAT(error.text, HasSubstr(R"(tensor "extra" of shard A.safetensors is not in the index)"));
  EXPECT_THAT(error.text,
              HasSubstr(R"(tensor "gone" is not in shard B.safetensors, where the index has it;)"));
  EXPECT_THAT(error.text,
              HasSubstr(R"(tensor "moved" is not in shard A.safetensors, where the index has it, but in B)"));
}

TEST_F(HfFolderTest, X4ALongReportIsCut) {
  put("A.safetensors", kA);
  std::string map;
  for (int i = 0; i < 1500; ++i) map += fmt::format(R"("t{}": "A.safetensors",)", i);
  map.back() = '}';
  put("model.safetensors.index.json", R"({"weight_map": {)" + map + "}");
  EXPECT_THAT(refused().text, testing::EndsWith("; and 502 more"));  // 1500 absent, 2 not in the index
}

TEST_F(HfFolderTest, C10aShardDeleted) {
  put_two_shards();
  std::filesystem::remove(join(folder_, "B.safetensors"));
  EXPECT_EQ(exit_code(refused().kind), 65);
  EXPECT_THAT(refused().text, HasSubstr(R"(shard "B.safetensors" is missing, which holds 1 tensors: "a.2")"));
}

TEST_F(HfFolderTest, C10bIndexSendsANameToTheWrongShard) {
  put_two_shards();
  put("model.safetensors.index.json",
      R"({"weight_map": {"a.0": "A.safetensors", "a.10": "B.safetensors", "a.2": "B.safetensors"}})");
  EXPECT_THAT(
      refused().text,
      HasSubstr(
          R"(tensor "a.10" is not in shard B.safetensors, where the index has it, but in A.safetensors)"));
}

TEST_F(HfFolderTest, X4IndexOfAnotherShape) {
  for (const char* index :
       {"[]", "{}", R"({"weight_map": []})", R"({"weight_map": {"a": 1}})", R"({"weight_map": {}})"}) {
    put("model.safetensors.index.json", index);
    EXPECT_EQ(refused().rule, "hf_folder_c2") << index;
  }
  put("model.safetensors.index.json", R"({"weight_map": {"a": "A.safetensors", "a": "B.safetensors"}})");
  EXPECT_EQ(refused().rule, "json_c3");
  put_index_to("A.bin");
  EXPECT_EQ(refused().rule, "P16");
}

TEST_F(HfFolderTest, C12FilesBesideTheShardsAreIgnoredAndNamed) {
  put_two_shards();
  put("model.safetensors", "unrelated");
  put("consolidated.safetensors", kA);
  const auto folder = open();
  ASSERT_TRUE(folder.ok()) << folder.error().message();
  EXPECT_EQ(folder.value()->tensors().size(), 3u);
  EXPECT_THAT(folder.value()->remarks(),
              ElementsAre(R"("consolidated.safetensors" is ignored: the index does not name it)",
                          R"("model.safetensors" is ignored: the index does not name it)"));
}

TEST_F(HfFolderTest, WrongTotalSizeAndMisalignedDataAreRemarks) {
  put("A.safetensors", file_of(padded(header_of({entry("a.0", "U8", {1}, 0, 1)})) + " ", "1"));
  put("model.safetensors.index.json",
      R"({"metadata": {"total_size": 6}, "weight_map": {"a.0": "A.safetensors"}})");
  const auto folder = open();
  ASSERT_TRUE(folder.ok());
  EXPECT_THAT(folder.value()->remarks(),
              Contains("model.safetensors.index.json: total_size is 6, the tensors have 1 bytes"));
  EXPECT_THAT(folder.value()->remarks(), Contains(HasSubstr("not a multiple of 8 (S18)")));
}

TEST_F(HfFolderTest, X6ShardIsNotARegularFile) {
  put_index_to("A.safetensors");
  const std::string path = join(folder_, "A.safetensors");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(refused().kind, ErrorKind::unsafe);
  EXPECT_THAT(refused().message(), HasSubstr("A.safetensors: X6: is a pipe"));
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_THAT(refused().message(), HasSubstr("X6: is a directory"));
  std::filesystem::remove(path);
  std::filesystem::create_symlink("/dev/zero", path);
  EXPECT_EQ(refused().kind, ErrorKind::unsafe);
  EXPECT_EQ(HfFolder::open(real_files(), "/dev/zero", {}).error().rule, "X6");
}

TEST_F(HfFolderTest, P16ContentAndNameDiffer) {
  put("model.safetensors", std::string("\x80\x02}q\0X\5\0\0\0hello.", 16));
  EXPECT_EQ(refused().rule, "P16");
  EXPECT_THAT(refused().text, HasSubstr("a pickle"));
  std::filesystem::remove(join(folder_, "model.safetensors"));

  put("pytorch_model.bin", kA);
  for (const char* name : {"", "pytorch_model.bin"}) {
    const Error error = refused(name);
    EXPECT_EQ(error.kind, ErrorKind::corrupt);
    EXPECT_EQ(error.rule, "P16");
    EXPECT_THAT(error.text,
                HasSubstr("the content is safetensors, but the name does not end in .safetensors"));
  }
  put("other.bin", std::string("PK\3\4\0\0\x08\x08\0\0\0\0", 12));
  EXPECT_EQ(refused("other.bin").kind, ErrorKind::unsupported);
  EXPECT_THAT(refused("other.bin").text, HasSubstr("a zip archive, as PyTorch's .bin and .pt files are"));
}

TEST_F(HfFolderTest, WritesShardsBySizeAndReadsThemBack) {
  MemorySource source;
  for (int i = 0; i < 12; ++i)
    source.add({fmt::format("w.{}", i), DType::u8, {4}}, std::vector<std::byte>(4, std::byte(i)));
  source.add({"z", DType::u8, {9}}, std::vector<std::byte>(9));
  uint64_t seen = 0;
  HfWriteOptions options;
  options.max_shard_bytes = 8;
  options.progress = [&](uint64_t bytes) -> Status {
    EXPECT_GT(bytes, seen);
    seen = bytes;
    return {};
  };
  ASSERT_TRUE(write_hf_weights(real_files(), folder_, source, options).ok());
  const auto folder = open();
  ASSERT_TRUE(folder.ok()) << folder.error().message();
  EXPECT_EQ(folder.value()->shards().size(), 7u);
  EXPECT_EQ(folder.value()->weight_map().at("w.2"), "model-00002-of-00007.safetensors");
  EXPECT_EQ(folder.value()->weight_map().at("z"), "model-00007-of-00007.safetensors");
  EXPECT_EQ(text_of(*folder.value(), "w.11"), text_of(source, "w.11"));
  EXPECT_TRUE(folder.value()->remarks().empty());  // total_size is right
  EXPECT_THAT(read_text(real_files(), join(folder_, "model.safetensors.index.json")).value(),
              testing::StartsWith(
                  "{\n  \"metadata\": {\n    \"total_size\": 57\n  },\n  \"weight_map\": {\n    \"w.0\":"));
}

TEST_F(HfFolderTest, WritesOneFileWithoutIndex) {
  MemorySource source;
  ASSERT_TRUE(write_hf_weights(real_files(), folder_, source).ok());
  EXPECT_THAT(real_files().list(folder_).value(), ElementsAre("model.safetensors"));
  EXPECT_TRUE(open().value()->tensors().empty());
}

TEST_F(HfFolderTest, RefusesToGuessAShard) {
  MemorySource source;
  source.add({"a", DType::u8, {1}}, {std::byte{1}});
  HfWriteOptions options;
  options.shard_of = {{"b", "B.safetensors"}};
  EXPECT_EQ(write_hf_weights(real_files(), folder_, source, options).error().message(),
            R"(hf_folder_c1: the original has no shard for 1 tensors: "a")");
  options.shard_of = {{"a", "../B.safetensors"}};
  EXPECT_EQ(write_hf_weights(real_files(), folder_, source, options).error().rule, "X1");
}

TEST_F(HfFolderTest, ExamplesComeBackByteForByte) {
  for (const std::string name : {"tiny-deepseek-v3", "tiny-deepseek-v3-fp8"}) {
    const std::string original = std::string(TANDEM_SOURCE_DIR) + "/examples/" + name;
    const auto folder = HfFolder::open(real_files(), original, {});
    ASSERT_TRUE(folder.ok()) << folder.error().message();
    const std::string copy = join(folder_, name);
    std::filesystem::create_directories(copy);
    HfWriteOptions options;
    options.shard_of = folder.value()->weight_map();
    ASSERT_TRUE(write_hf_weights(real_files(), copy, *folder.value(), options).ok());
    for (const std::string& shard : folder.value()->shards())
      EXPECT_TRUE(read_text(real_files(), join(copy, shard)).value() ==
                  read_text(real_files(), join(original, shard)).value())
          << name << " " << shard;
    EXPECT_EQ(HfFolder::open(real_files(), copy, {}).value()->weight_map(), folder.value()->weight_map());
  }
}

}  // namespace
}  // namespace tandem
