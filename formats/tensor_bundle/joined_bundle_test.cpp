// Bundles of several stages, read as one.

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
const std::string kOne = from_hex("0000803f 00000040"), kOther = from_hex("0000803f 00000041");

/// Two bundles that both hold `tied`, and one tensor each of their own.
class JoinedBundle : public ::testing::Test {
 protected:
  std::unique_ptr<TensorBundle> bundle(const std::string& name, const Shape& shape, const std::string& tied) {
    auto writer = TensorBundleWriter::create(kFiles, folder_ / name).value();
    EXPECT_TRUE(add(*writer, value_key(name), DType::f32, {2}, kOne).ok());
    EXPECT_TRUE(writer->add_string("note " + name, "of " + name).ok());
    EXPECT_TRUE(add(*writer, value_key("tied"), DType::f32, shape, tied).ok());
    EXPECT_TRUE(writer->finish().ok());
    return TensorBundle::open(kFiles, folder_ / name).value();
  }
  Result<std::unique_ptr<TensorBundle>> join(const Shape& shape, const std::string& tied) {
    std::vector<std::unique_ptr<TensorBundle>> bundles;
    bundles.push_back(bundle("layers 10", {2}, kOne));
    bundles.push_back(bundle("layers 9", shape, tied));
    return TensorBundle::join(std::move(bundles));
  }
  TestFolder folder_;
};

TEST_F(JoinedBundle, HoldsEachTensorOnce) {
  const auto joined = join({2}, kOne);
  ASSERT_TRUE(joined.ok()) << joined.error().message();
  const TensorBundle& all = *joined.value();
  std::vector<std::string> names;
  for (const TensorInfo& info : all.tensors()) {
    names.push_back(info.name);
    EXPECT_EQ(read_all(all, info), kOne) << info.name;
    EXPECT_TRUE(all.verify_checksum(info.name).ok());
    EXPECT_EQ(all.stored_checksum(info.name), mask_crc(crc32c(0, as_bytes(kOne))));
  }
  EXPECT_THAT(names, ElementsAre("layers 9", "layers 10", "tied"));
  EXPECT_TRUE(all.verify_checksums().ok());
  EXPECT_EQ(all.extents().size(), 6u) << "a tied table lies in both";
  EXPECT_THAT(all.remarks(), ElementsAre("note layers 10: a string", "note layers 9: a string"));
  EXPECT_THAT(all.aliases("layers 9"), ElementsAre("layers 9"));
  EXPECT_THAT(all.location("layers 9"), HasSubstr("/layers 9.data-00000-of-00001 bytes 0 to 8"));
  EXPECT_THAT(all.location("tied"), HasSubstr("/layers 10.data-00000-of-00001"));
  EXPECT_EQ(all.read_string("note layers 10").value(), "of layers 10");
  EXPECT_FALSE(all.has_object_graph());
}

TEST_F(JoinedBundle, ATensorThatIsNotThere) {
  const auto joined = join({2}, kOne);
  ASSERT_TRUE(joined.ok()) << joined.error().message();
  const TensorBundle& all = *joined.value();
  std::vector<std::byte> out(4);
  EXPECT_EQ(all.read("x", 0, out).error().text, "no tensor 'x'");
  EXPECT_EQ(all.verify_checksum("x").error().text, "no tensor 'x'");
  EXPECT_FALSE(all.stored_checksum("x"));
  EXPECT_THAT(all.aliases("x"), IsEmpty());
  EXPECT_EQ(all.location("x"), folder_ / "layers 10.index");
}

TEST_F(JoinedBundle, C4ATiedTensorIsTheSameInBoth) {
  for (const auto& [shape, tied] :
       std::vector<std::pair<Shape, std::string>>{{{2}, kOther}, {{2, 1}, kOne}}) {
    const auto joined = join(shape, tied);
    ASSERT_FALSE(joined.ok());
    EXPECT_EQ(joined.error().rule, "stages_c4");
    EXPECT_EQ(joined.error().text, "'tied' is in two stages, and is not the same in both");
    EXPECT_THAT(joined.error().where, HasSubstr("/layers 9.data-00000-of-00001 bytes"));
  }
}

TEST_F(JoinedBundle, DamageIsFoundInTheSecondToo) {
  const auto joined = join({2}, kOne);
  ASSERT_TRUE(joined.ok()) << joined.error().message();
  const std::string path = folder_ / "layers 9.data-00000-of-00001";
  std::string bytes = read_text(kFiles, path).value();
  bytes[bytes.size() - 1] ^= 1;  // of `tied`, which is written last
  ASSERT_TRUE(write_text(kFiles, path, bytes).ok());
  for (const Status& found : {joined.value()->verify_checksum("tied"), joined.value()->verify_checksums()}) {
    ASSERT_FALSE(found.ok());
    EXPECT_THAT(found.error().message(), HasSubstr("layers 9.data-00000-of-00001: tied"));
  }
  EXPECT_TRUE(joined.value()->verify_checksum("layers 9").ok());
}

TEST_F(JoinedBundle, OfNothingIsOurMistake) {
  EXPECT_EQ(TensorBundle::join({}).error().kind, ErrorKind::bug);
}

}  // namespace
}  // namespace tandem
