#include "formats/saved_model/stage_bundles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/test_folder.h"
#include "formats/tensor_bundle/testing.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

const FileSystem& kFiles = real_files();

/// A folder of two stages, each with one weight; the first weight of the second stage is named by `second`.
void write_stages(const TestFolder& folder, const std::string& second) {
  const StageManifest manifest{"llama", {{0, 3, 912, ""}, {3, 6, 900, "x_3"}}};
  ASSERT_TRUE(write_text(kFiles, folder / kStagesFile, to_text(manifest)).ok());
  for (size_t stage = 0; stage < 2; ++stage) {
    const std::string variables = folder / (manifest.folder(stage) + "/variables");
    ASSERT_TRUE(kFiles.make_directories(variables).ok());
    auto writer = TensorBundleWriter::create(kFiles, variables + "/variables").value();
    const std::string key = value_key(stage == 0 ? "first" : second);
    ASSERT_TRUE(testing::add(*writer, key, DType::u8, {1}, stage == 0 ? "a" : "b").ok());
    ASSERT_TRUE(writer->finish().ok());
  }
}

TEST(StageBundles, AreReadAsOne) {
  const TestFolder folder;
  write_stages(folder, "second");
  const auto manifest = read_stages(kFiles, folder.path());
  ASSERT_TRUE(manifest.ok()) << manifest.error().message();
  const auto bundle = open_stage_bundles(kFiles, folder.path(), manifest.value());
  ASSERT_TRUE(bundle.ok()) << bundle.error().message();
  EXPECT_EQ(bundle.value()->tensors().size(), 2u);
}

TEST(StageBundles, C3TheErrorNamesTheFile) {
  const TestFolder folder;
  EXPECT_EQ(read_stages(kFiles, folder.path()).error().kind, ErrorKind::missing);
  ASSERT_TRUE(write_text(kFiles, folder / kStagesFile, "{}").ok());
  const auto manifest = read_stages(kFiles, folder.path());
  ASSERT_FALSE(manifest.ok());
  EXPECT_EQ(manifest.error().rule, "stages_c3");
  EXPECT_EQ(manifest.error().where, folder / kStagesFile);
}

TEST(StageBundles, C4OneTensorInTwoStagesIsTheSame) {
  const TestFolder folder;
  write_stages(folder, "first");
  const auto bundle = open_stage_bundles(kFiles, folder.path(), read_stages(kFiles, folder.path()).value());
  ASSERT_FALSE(bundle.ok());
  EXPECT_EQ(bundle.error().rule, "stages_c4");
  EXPECT_THAT(bundle.error().where, HasSubstr("stage-1-of-2/variables/variables.data"));
}

TEST(StageBundles, AStageThatIsNotThere) {
  const TestFolder folder;
  write_stages(folder, "second");
  ASSERT_TRUE(kFiles.remove_all(folder / "stage-1-of-2").ok());
  const auto bundle = open_stage_bundles(kFiles, folder.path(), read_stages(kFiles, folder.path()).value());
  ASSERT_FALSE(bundle.ok());
  EXPECT_EQ(bundle.error().kind, ErrorKind::missing);
  EXPECT_THAT(bundle.error().message(), HasSubstr("stage-1-of-2"));
}

}  // namespace
}  // namespace tandem
