#include "verify/side.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem {
namespace {

using testing::HasSubstr;

TEST(Side, AnEngineMayStandInFrontOfAPath) {
  EXPECT_EQ(parse_side("hf:a").value().engine, EngineKind::hf);
  EXPECT_EQ(parse_side("dump:a").value().engine, EngineKind::dump);
  EXPECT_EQ(parse_side("tf:a/b:c").value().path, "a/b:c");
  EXPECT_EQ(parse_side("a/b:c").value().engine, std::nullopt);
  EXPECT_EQ(parse_side("./a:b").value().path, "./a:b");
  const auto drive = parse_side("C:/model");
  ASSERT_FALSE(drive.ok());
  EXPECT_EQ(drive.error().kind, ErrorKind::usage);
  EXPECT_THAT(drive.error().hint, HasSubstr("./ in front"));
}

TEST(Side, EnginesRunTheFormatsOfTheirFramework) {
  using F = ModelFormat;
  using E = EngineKind;
  for (const auto& [format, engine] : {std::pair{F::saved_model, E::tf}, std::pair{F::hf_folder, E::hf}}) {
    EXPECT_EQ(engine_for(format, {}).value(), engine);
    EXPECT_EQ(engine_for(format, engine).value(), engine);
    EXPECT_EQ(engine_for(format, E::torch).value(), E::torch);
  }
  for (const auto& [format, engine] :
       {std::pair{F::saved_model, E::hf}, std::pair{F::hf_folder, E::tf}, std::pair{F::checkpoint, E::tf},
        std::pair{F::safetensors, E::torch}}) {
    const auto wrong = engine_for(format, engine);
    ASSERT_FALSE(wrong.ok());
    EXPECT_EQ(wrong.error().rule, "verify_c2");
  }
}

}  // namespace
}  // namespace tandem
