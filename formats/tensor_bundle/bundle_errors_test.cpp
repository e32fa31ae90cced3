// What is said of bundles and requests that are wrong in ways that the other tests do not meet.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/test_folder.h"
#include "formats/tensor_bundle/tensor_bundle.h"
#include "formats/tensor_bundle/testing.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace tandem::testing;

const FileSystem& kFiles = real_files();

/// One variable and one string, and a graph that names the variable.
class BundleErrors : public ::testing::Test {
 protected:
  void SetUp() override { make("v", value_key("w")); }
  void make(const std::string& variable, const std::string& key_in_graph) {
    auto writer = TensorBundleWriter::create(kFiles, folder_ / "v").value();
    ASSERT_TRUE(add(*writer, value_key("w"), DType::f32, {2}, from_hex("0000803f 00000040")).ok());
    ASSERT_TRUE(writer->add_string("note", "text").ok());
    ASSERT_TRUE(
        writer->add_string(std::string(kObjectGraphKey), object_graph({{variable, key_in_graph}})).ok());
    ASSERT_TRUE(writer->finish().ok());
  }
  std::unique_ptr<TensorBundle> open() const { return TensorBundle::open(kFiles, folder_ / "v").value(); }
  std::string refused(const std::string& path) const {
    const auto opened = TensorBundle::open(kFiles, path);
    return opened.ok() ? "opened" : opened.error().rule + " " + opened.error().text;
  }
  TestFolder folder_;
};

TEST_F(BundleErrors, ATensorThatIsNotThere) {
  const auto bundle = open();
  std::vector<std::byte> out(4);
  EXPECT_EQ(bundle->read("x", 0, out).error().text, "no tensor 'x'");
  EXPECT_EQ(bundle->verify_checksum("x").error().text, "no tensor 'x'");
  EXPECT_EQ(bundle->location("x"), folder_ / "v.index");
  EXPECT_THAT(bundle->aliases("x"), IsEmpty());
  EXPECT_TRUE(bundle->verify_checksum("v").ok());
  EXPECT_THAT(bundle->location("v"), HasSubstr("bytes 0 to 8"));
}

TEST_F(BundleErrors, BytesPastTheEndAreOurMistake) {
  std::vector<std::byte> out(8);
  const Status read = open()->read("v", 4, out);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().kind, ErrorKind::bug);
  EXPECT_EQ(read.error().text, "bytes 4 to 12 of 'v', which has 8");
}

TEST_F(BundleErrors, OnlyScalarStringsAreReadAsText) {
  const auto bundle = open();
  EXPECT_EQ(bundle->read_string("note").value(), "text");
  EXPECT_EQ(bundle->read_string("x").error().text, "no entry 'x'");
  EXPECT_THAT(bundle->read_string(value_key("w")).error().text, HasSubstr("is no scalar string"));
}

TEST_F(BundleErrors, AStringIsARemarkAndAnExtent) {
  const auto bundle = open();
  EXPECT_THAT(bundle->remarks(), ElementsAre("note: a string"));
  std::vector<std::string> names;
  for (const BundleExtent& extent : bundle->extents()) names.push_back(extent.name);
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("v", "note", std::string(kObjectGraphKey)));
}

TEST_F(BundleErrors, T4AVariableOfTheGraphWithoutAnEntry) {
  make("v", value_key("gone"));
  EXPECT_THAT(refused(folder_ / "v"), HasSubstr("T4 variable 'v' of the object graph has no entry 'gone"));
}

TEST_F(BundleErrors, T4TwoTensorsOfOneName) {
  auto writer = TensorBundleWriter::create(kFiles, folder_ / "v").value();
  ASSERT_TRUE(add(*writer, "a", DType::f32, {1}, from_hex("0000803f")).ok());
  ASSERT_TRUE(add(*writer, value_key("a"), DType::f32, {1}, from_hex("0000803f")).ok());
  ASSERT_TRUE(writer->finish().ok());
  EXPECT_THAT(refused(folder_ / "v"), HasSubstr("T4 two tensors are named 'a'"));
}

TEST_F(BundleErrors, C24StateFiles) {
  const auto state = [&](std::string_view text) {
    EXPECT_TRUE(write_text(kFiles, folder_ / "checkpoint", text).ok());
    return refused(folder_.path());
  };
  EXPECT_THAT(state("all_model_checkpoint_paths: \"v\"\n"),
              HasSubstr("C24 no line of this state file begins with model_checkpoint_path:"));
  EXPECT_EQ(state("model_checkpoint_path: \"\\166\"\n"), "opened") << "octal, as protobuf writes it";
  EXPECT_EQ(state("model_checkpoint_path: \"\\v\"\n"), "opened");
  EXPECT_EQ(state("model_checkpoint_path: \"/gone/v\"\n"), "opened");
  EXPECT_THAT(state("model_checkpoint_path: \"../v\"\n"), HasSubstr("X1"));
}

}  // namespace
}  // namespace tandem
