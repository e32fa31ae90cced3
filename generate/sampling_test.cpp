#include "generate/sampling.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>

#include "generate/philox.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;

// The known answers that come with the authors' library, Random123 (kat_vectors: philox4x32 10).
TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_THAT(philox({0, 0, 0, 0}, {0, 0}), ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  const uint32_t ones = 0xffffffff;
  EXPECT_THAT(philox({ones, ones, ones, ones}, {ones, ones}),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(Uniform, IsMadeOfTheFirstTwoWords) {
  EXPECT_EQ(uniform(0, 0, 0), static_cast<double>(0xe169c58d6627e8d5 >> 11) * 0x1p-53);
  EXPECT_NE(uniform(0, 0, 1), uniform(0, 1, 0));
  EXPECT_NE(uniform(1, 0, 0), uniform(uint64_t{1} << 32, 0, 0));
}

std::vector<int32_t> ids(const std::vector<float>& logits, const SamplingOptions& options,
                         const std::vector<int32_t>& seen = {}) {
  std::vector<int32_t> found;
  const auto made = candidates(logits, seen, options).value();
  for (const Candidate& candidate : made) found.push_back(candidate.id);
  return found;
}

/// Logits of these probabilities.
std::vector<float> logits_of(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

const std::vector<float> kLogits = logits_of({0.1, 0.4, 0.05, 0.25, 0.2});

TEST(Candidates, TopKAreTheMostLikelyTheLowestIdFirst) {
  EXPECT_THAT(ids(kLogits, {.top_k = 2}), ElementsAre(1, 3));
  EXPECT_THAT(ids(kLogits, {.top_k = 99}), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(ids({1, 2, 2, 2}, {.top_k = 2}), ElementsAre(1, 2));
}

TEST(Candidates, TopPIsTheSmallestSetThatReachesIt) {
  EXPECT_THAT(ids(kLogits, {.top_p = 0.39}), ElementsAre(1));
  EXPECT_THAT(ids(kLogits, {.top_p = 0.41}), ElementsAre(1, 3));
  EXPECT_THAT(ids(kLogits, {.top_p = 0.8}), ElementsAre(1, 3, 4));
  EXPECT_THAT(ids(kLogits, {.top_p = 1e-9}), ElementsAre(1));
  EXPECT_THAT(ids(kLogits, {.top_k = 2, .top_p = 0.6}), ElementsAre(1))
      << "of what top_k has left: 0.4 of 0.65";
}

TEST(Candidates, MinPIsAPartOfTheMostLikely) {
  EXPECT_THAT(ids(kLogits, {.min_p = 0.45}), ElementsAre(1, 3, 4));
  EXPECT_THAT(ids(kLogits, {.min_p = 1}), ElementsAre(1));
}

TEST(Candidates, TemperatureComesBeforeTheCuts) {
  EXPECT_THAT(ids(kLogits, {.temperature = 0}), ElementsAre(1));
  const auto cold = candidates(kLogits, {}, {.temperature = 0.5, .top_k = 2}).value();
  EXPECT_NEAR(cold[0].probability, 0.16 / (0.16 + 0.0625), 1e-6);
  EXPECT_THAT(ids(kLogits, {.temperature = 0.5, .min_p = 0.45}), ElementsAre(1)) << "0.25 squared is below";
}

TEST(Candidates, ThePenaltyComesFirstAndOnceAToken) {
  const auto made =
      candidates(std::vector<float>{2, -2, 1}, std::vector<int32_t>{0, 1, 0}, {.repetition_penalty = 2})
          .value();
  const double sum = std::exp(1) + std::exp(-4) + std::exp(1);
  EXPECT_NEAR(made[0].probability, std::exp(1) / sum, 1e-12);
  EXPECT_NEAR(made[1].probability, std::exp(-4) / sum, 1e-12);
  EXPECT_THAT(ids({2, 1.5, 0}, {.temperature = 0, .repetition_penalty = 2}, {0}), ElementsAre(1));
}

TEST(Candidates, TokensThatCannotComeAreLeftOut) {
  const float never = -INFINITY;
  EXPECT_THAT(ids({never, 1, never, 0}, {}), ElementsAre(1, 3));
  EXPECT_THAT(ids({1e4f, -1e4f}, {}), ElementsAre(0));
}

TEST(Candidates, C2NoNumberNoToken) {
  EXPECT_EQ(candidates(std::vector<float>{1, NAN}, {}, {}).error().message(),
            "sampling_c2: the logits hold NaN");
  EXPECT_EQ(candidates(std::vector<float>{-INFINITY, -INFINITY}, {}, {}).error().message(),
            "sampling_c2: the largest logit is -inf");
}

TEST(Candidates, C3SeenTokensAreOfTheVocabulary) {
  EXPECT_EQ(candidates(std::vector<float>{1}, std::vector<int32_t>{1}, {}).error().message(),
            "sampling_c3: token 1 was seen, and there are 1 logits");
  EXPECT_EQ(candidates({}, {}, {}).error().message(), "sampling_c3: there are no logits");
}

TEST(Sampling, C1OptionsHaveRanges) {
  EXPECT_TRUE(check(SamplingOptions{}).ok());
  const auto text = [](const SamplingOptions& options) { return check(options).error().message(); };
  EXPECT_EQ(text({.temperature = -1}), "sampling_c1: temperature is -1, expected 0 to 1000000");
  EXPECT_EQ(text({.temperature = NAN}), "sampling_c1: temperature is nan, expected 0 to 1000000");
  EXPECT_EQ(text({.top_p = 0}), "sampling_c1: top_p is 0, expected above 0 to 1");
  EXPECT_EQ(text({.min_p = 1.5}), "sampling_c1: min_p is 1.5, expected 0 to 1");
  EXPECT_EQ(text({.repetition_penalty = 0}),
            "sampling_c1: repetition_penalty is 0, expected 1e-06 to 1000000");
}

TEST(Sample, OneSeedOneText) {
  const SamplingOptions options{.seed = 7};
  std::vector<int32_t> one, other;
  for (uint64_t step = 0; step < 50; ++step) {
    one.push_back(sample_token(kLogits, {}, options, 0, step).value());
    other.push_back(sample_token(kLogits, {}, {.seed = 8}, 0, step).value());
    EXPECT_EQ(sample_token(kLogits, {}, options, 0, step).value(), one.back());
  }
  EXPECT_NE(one, other);
  EXPECT_THAT(std::vector<int32_t>(one.begin(), one.begin() + 8), ElementsAre(3, 3, 0, 1, 4, 1, 1, 1));
}

/// Chi-square of 20,000 draws against the candidates' probabilities.
double chi_square(const SamplingOptions& options, uint64_t row) {
  constexpr int kDraws = 20000;
  const auto expected = candidates(kLogits, {}, options).value();
  std::map<int32_t, int> counts;
  for (uint64_t step = 0; step < kDraws; ++step)
    ++counts[sample_token(kLogits, {}, options, row, step).value()];
  double sum = 0;
  int drawn = 0;
  for (const Candidate& candidate : expected) {
    const double mean = kDraws * candidate.probability, off = counts[candidate.id] - mean;
    sum += off * off / mean;
    drawn += counts[candidate.id];
  }
  EXPECT_EQ(drawn, kDraws) << "a token was drawn that is no candidate";
  return sum;
}

// 23.5 is passed by one of 10,000 fair samples with 4 degrees of freedom, 21.1 with 3, and so on: one bar for
// all.
TEST(Sample, DrawsAreDistributedAsTheCandidatesAre) {
  for (uint64_t row = 0; row < 3; ++row) {
    EXPECT_LT(chi_square({.seed = 1}, row), 23.5);
    EXPECT_LT(chi_square({.temperature = 0.7, .top_k = 4, .seed = 2}, row), 23.5);
    EXPECT_LT(chi_square({.temperature = 1.5, .top_p = 0.9, .seed = uint64_t{3} << 40}, row), 23.5);
    EXPECT_LT(chi_square({.min_p = 0.3, .seed = 4}, row), 23.5);
  }
}

}  // namespace
}  // namespace tandem
