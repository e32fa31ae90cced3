#include "generate/sampling_wishes.h"

#include <gmock/gmock.h>

namespace tandem {
namespace {

using ::testing::HasSubstr;

SamplingOptions made(const SamplingWishes& flags, const SamplingWishes& file) {
  return sampling_options(flags, file, 77).value();
}

TEST(SamplingWishes, NothingSaidIsGreedy) {
  EXPECT_EQ(to_json(made({}, {})).dump(), R"({"do_sample":false,"repetition_penalty":1.0})");
  EXPECT_FALSE(draws(made({}, {.temperature = 0.6, .top_p = 0.9}))) << "how to sample is not: sample";
  EXPECT_FALSE(draws(made({}, {.do_sample = false})));
}

TEST(SamplingWishes, DoSampleOfTheFileDrawsWithItsFieldsAndTransformersDefaults) {
  const SamplingOptions options = made({}, {.do_sample = true, .temperature = 0.6});
  EXPECT_EQ(flags_of(options),
            "--temperature 0.6 --top-k 50 --top-p 1 --min-p 0 --repetition-penalty 1 --seed 77");
  EXPECT_EQ(made({}, {.do_sample = true, .top_k = 0}).top_k, 0u);
  EXPECT_FALSE(draws(made({.do_sample = false}, {.do_sample = true, .temperature = 0.6})));
}

TEST(SamplingWishes, AnyFlagOfADrawDrawsAndFlagsComeBeforeTheFile) {
  for (const SamplingWishes& flags :
       {SamplingWishes{.temperature = 1}, {.top_p = 1}, {.min_p = 0}, {.top_k = 0}, {.seed = 5}})
    EXPECT_TRUE(draws(made(flags, {})));
  const SamplingOptions options =
      made({.temperature = 0.9, .top_k = 0, .seed = 5},
           {.do_sample = false, .temperature = 0.1, .top_p = 0.8, .min_p = 0.05, .top_k = 3});
  EXPECT_EQ(flags_of(options),
            "--temperature 0.9 --top-k 0 --top-p 0.8 --min-p 0.05 --repetition-penalty 1 --seed 5");
  EXPECT_FALSE(draws(made({.temperature = 0}, {.do_sample = true})));
}

TEST(SamplingWishes, ThePenaltyHoldsWhetherTokensAreDrawnOrNot) {
  EXPECT_EQ(made({}, {.repetition_penalty = 1.1}).repetition_penalty, 1.1);
  const SamplingOptions options = made({.repetition_penalty = 1.3}, {.repetition_penalty = 1.1});
  EXPECT_FALSE(draws(options));
  EXPECT_EQ(options.repetition_penalty, 1.3);
  EXPECT_TRUE(check_flags({.do_sample = false, .repetition_penalty = 1.3}).ok());
}

TEST(SamplingWishes, FlagsOutOfRangeOrAgainstEachOtherAreRefused) {
  const Error range = check_flags({.top_p = 0}).error();
  EXPECT_EQ(range.kind, ErrorKind::usage);
  EXPECT_EQ(range.text, "top_p is 0, expected above 0 to 1");
  const Error both = check_flags({.do_sample = false, .seed = 5}).error();
  EXPECT_EQ(both.kind, ErrorKind::usage);
  EXPECT_THAT(both.text, HasSubstr("--greedy takes the most likely token"));
}

TEST(SamplingWishes, ARangeOfTheFileIsTheFilesFaultAndOnlyWhereItIsUsed) {
  for (const SamplingWishes& file :
       {SamplingWishes{.do_sample = true, .temperature = -1}, {.repetition_penalty = -1}}) {
    const auto refused = sampling_options({}, file, 0);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
    EXPECT_THAT(refused.error().message(), HasSubstr("generation_config.json: generation_c1: "));
    EXPECT_THAT(refused.error().message(), HasSubstr(" is -1, expected"));
  }
  EXPECT_TRUE(sampling_options({}, {.temperature = -1}, 0).ok());
  EXPECT_TRUE(sampling_options({.temperature = 1}, {.do_sample = true, .temperature = -1}, 0).ok());
}

}  // namespace
}  // namespace tandem
