#include "bench/contender.h"

#include <gmock/gmock.h>

#include <set>

namespace tandem {
namespace {

TEST(Contenders, EachHasANameOfItsOwnAndAFileWhereItReadsOne) {
  std::set<std::string_view> names;
  for (const ContenderRow& row : contenders()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(contender_named(row.name).value(), &row);
    const bool given = row.input == ModelInput::saved_model || row.input == ModelInput::hf_folder;
    EXPECT_EQ(prepared_name(row).empty(), given) << row.name;
    const bool ours = row.input == ModelInput::saved_model || row.input == ModelInput::bf16_saved_model;
    EXPECT_EQ(row.script.empty(), ours) << row.name;
    EXPECT_GT(row.tolerance, 0) << row.name;
  }
  EXPECT_EQ(prepared_name(*contender_named("llama.cpp").value()), "f32.gguf");
  EXPECT_EQ(prepared_name(*contender_named("onnxruntime").value()), "onnx");
  EXPECT_EQ(prepared_name(*contender_named("tf-xla-bf16").value()), "bf16.savedmodel");
}

TEST(Contenders, AFileThatWasNotPreparedIsNamed) {
  const ContenderRow& row = *contender_named("onnxruntime").value();
  for (const ModelPaths& paths :
       {ModelPaths{"model", "graph", ""}, ModelPaths{"model", "graph", "/nowhere"}}) {
    const auto started = start_contender(row, paths, 1, false, 10);
    ASSERT_FALSE(started.ok());
    EXPECT_EQ(started.error().rule, "bench_c7");
    EXPECT_EQ(started.error().kind, ErrorKind::missing);
    EXPECT_THAT(started.error().message(), testing::HasSubstr("onnx, which is not there"));
    EXPECT_THAT(started.error().message(), testing::HasSubstr("tandem bench prepare MODEL FOLDER"));
  }
}

}  // namespace
}  // namespace tandem
