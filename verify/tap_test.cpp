#include "verify/tap.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class T>
HostTensor tensor(DType dtype, Shape shape, const std::vector<T>& values) {
  HostTensor made{dtype, std::move(shape), std::vector<std::byte>(values.size() * sizeof(T))};
  std::memcpy(made.data.data(), values.data(), made.data.size());
  return made;
}
HostTensor floats(const std::vector<float>& values) {
  return tensor(DType::f32, {1, values.size() / 2, 2}, values);
}
HostTensor doubles(const std::vector<double>& values) {
  return tensor(DType::f64, {1, values.size() / 2, 2}, values);
}
const TokenMask kTwoTokens{1, 2, {1, 1}, 1};

TapVerdict judged(const TapDistance& distance) { return judge(distance, kTolerances[0], Depth::layer); }

TEST(Measure, DistancesAreThoseOfRealTokens) {
  const HostTensor reference = floats({1, 2, 3, 4}), other = floats({1, 2.5f, 30, 40});
  const TokenMask padded{1, 2, {1, 0}, 1};
  const TapDistance d = measure(reference, other, nullptr, nullptr, padded).value();
  EXPECT_EQ(d.values, 2u);
  EXPECT_EQ(d.max_abs_error, 0.5);
  EXPECT_DOUBLE_EQ(d.rms_error, std::sqrt(0.125));
  EXPECT_DOUBLE_EQ(d.rms, std::sqrt(2.5));
}

TEST(Measure, TokensMayStandBehindHeads) {  // [batch 1, heads 2, tokens 2]
  const HostTensor reference = tensor<float>(DType::f32, {1, 2, 2, 1}, {1, 2, 3, 4});
  const HostTensor other = tensor<float>(DType::f32, {1, 2, 2, 1}, {1, 9, 3, 9});
  const TapDistance d = measure(reference, other, nullptr, nullptr, {1, 2, {1, 0}, 2}).value();
  EXPECT_EQ(d.values, 2u);
  EXPECT_EQ(d.max_abs_error, 0);
}

TEST(Measure, EachSideHasItsDistanceFromFloat64) {
  const HostTensor exact = doubles({1, 2, 3, 4}), own = doubles({1, 2, 3, 5});
  const TapDistance d =
      measure(floats({1, 2, 3, 4.5f}), floats({1, 2, 3, 5.25f}), &exact, &own, kTwoTokens).value();
  EXPECT_EQ(d.reference_max, 0.5);
  EXPECT_EQ(d.other_max, 0.25);
  EXPECT_EQ(d.worst_token, 1u);
}

TEST(Measure, ShapesMustAgree) {
  const auto found = measure(floats({1, 2, 3, 4}), floats({1, 2}), nullptr, nullptr, kTwoTokens);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().rule, "verify_c4");
  EXPECT_THAT(found.error().text, HasSubstr("[1, 2, 2], the other [1, 1, 2]"));
}

TEST(Judge, NothingComparedFails) {
  const TokenMask none{1, 2, {0, 0}, 1};
  const TapDistance d = measure(floats({1, 2, 3, 4}), floats({1, 2, 3, 4}), nullptr, nullptr, none).value();
  EXPECT_EQ(judged(d).verdict, Verdict::different);
  EXPECT_THAT(judged(d).failures, ElementsAre("nothing was compared"));
}

TEST(Judge, NanOnBothSidesFails) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const HostTensor side = floats({1, nan, 3, 4});
  const TapDistance d = measure(side, side, nullptr, nullptr, kTwoTokens).value();
  EXPECT_EQ(judged(d).verdict, Verdict::different);
  EXPECT_THAT(judged(d).failures, ElementsAre("1 of 4 values are NaN or infinite"));
}

TEST(Judge, ASideMayBeFourTimesAsFarAsTheReference) {
  TapDistance d;
  d.values = 4;
  d.has_exact = true;
  d.rms = 1;
  d.reference_max = d.reference_rms = 1e-6;
  d.other_max = d.other_rms = 4e-6;
  EXPECT_EQ(judged(d).verdict, Verdict::equal);
  d.other_max = 4.1e-6;
  EXPECT_THAT(judged(d).failures,
              ElementsAre(HasSubstr("largest distance from float64 4.1e-06, at most 4e-06")));
  d.other_max = 0;
  d.other_rms = 4.1e-6;
  EXPECT_THAT(judged(d).failures, ElementsAre(HasSubstr("RMS distance from float64")));
}

TEST(Judge, BelowTheFloorNothingIsToldFromRounding) {
  TapDistance d;
  d.values = 4;
  d.has_exact = true;
  d.rms = 10;
  d.other_max = d.other_rms = 10 * 0x1p-22;
  EXPECT_EQ(judged(d).verdict, Verdict::equal);
  d.other_rms *= 1.01;
  EXPECT_EQ(judged(d).verdict, Verdict::different);
}

// Models with rotary scaling "dynamic" compute powers as they run: an ulp of a power times position 9 is an
// error of 1e-6 in a cosine, and no difference of models.
TEST(Judge, ACosineIsAsExactAsItsAngle) {
  TapDistance d;
  d.values = 10;
  d.has_exact = true;
  d.max_abs = 1;
  d.rms = 0.7;
  d.reference_max = d.reference_rms = 3e-8;
  d.other_max = 1e-6;
  d.other_rms = 3e-7;
  const auto judged = [&](double angle) {
    d.angle = angle;
    return tandem::judge(d, kTolerances[0], Depth::layer).verdict;
  };
  EXPECT_EQ(judged(0), Verdict::different);
  EXPECT_EQ(judged(9), Verdict::equal);
  d.other_max = 1e-5;
  EXPECT_EQ(judged(9), Verdict::different);
}

TEST(Judge, AReferenceFarFromFloat64IsAFindingOfItsOwn) {
  TapDistance d;
  d.values = 4;
  d.has_exact = true;
  d.rms = 1;
  d.reference_rms = 2e-4;
  EXPECT_EQ(judged(d).verdict, Verdict::reference_disagrees);
  EXPECT_THAT(judged(d).failures, ElementsAre(HasSubstr("contract and reference disagree")));
  EXPECT_EQ(judge(d, kTolerances[0], Depth::stack).verdict, Verdict::equal);
}

TEST(Judge, WithoutFloat64TheFixedBarGrowsWithLargeValues) {
  TapDistance d;
  d.values = 4;
  d.max_abs = 4;
  d.max_abs_error = 0.9e-5;
  EXPECT_EQ(judged(d).verdict, Verdict::equal);
  d.max_abs_error = 1.1e-5;
  EXPECT_EQ(judged(d).verdict, Verdict::different);
  d.max_abs = 80;
  EXPECT_EQ(judged(d).verdict, Verdict::equal);
}

TEST(Tap, TheWorstProbeIsKeptAndEveryFailureIsTold) {
  TapDistance good, bad;
  good.values = bad.values = 2;
  bad.max_abs_error = bad.rms_error = 1;
  TapResult tap;
  add(tap, "first", bad);
  add(tap, "second", good);
  finish(tap, kTolerances[0], Depth::layer);
  EXPECT_EQ(tap.probe, "first");
  EXPECT_EQ(tap.values, 4u);
  EXPECT_FALSE(tap.equal());
  EXPECT_THAT(tap.failures, ElementsAre(HasSubstr("first: max error 1")));
}

TEST(Tap, TheLargestErrorIsHeldAgainstTheReferencesOverAllProbes) {
  TapDistance few, many;
  few.values = many.values = 4;
  few.has_exact = many.has_exact = true;
  few.rms = many.rms = 1;
  few.reference_rms = many.reference_rms = few.other_rms = many.other_rms = 1e-6;
  few.reference_max = 1e-6;
  few.other_max = 7e-6;
  many.reference_max = many.other_max = 2e-6;
  TapResult alone, both;
  add(alone, "few", few);
  finish(alone, kTolerances[0], Depth::layer);
  EXPECT_FALSE(alone.equal());
  add(both, "few", few);
  add(both, "many", many);
  finish(both, kTolerances[0], Depth::layer);
  EXPECT_TRUE(both.equal());
}

TEST(Tap, ATapThatOneSideLacksIsNeverEqual) {
  const TapResult tap = missing_tap("model.norm", "right");
  EXPECT_FALSE(tap.equal());
  EXPECT_THAT(tap.failures, ElementsAre("model.norm is missing on the right side"));
}

TapDistance distance(double reference, double other) {
  TapDistance made;
  made.values = 4;
  made.rms = made.max_abs = 1;
  made.has_exact = true;
  made.reference_max = made.reference_rms = reference;
  made.other_max = made.other_rms = other;
  return made;
}

double over_bar(const TapDistance& d) { return judge(d, kTolerances[0], Depth::layer).over_bar; }

TEST(Tap, OverBarIsTheShareOfTheBarThatDecides) {
  EXPECT_EQ(over_bar(distance(1e-6, 2e-6)), 0.5);
  EXPECT_EQ(over_bar(distance(1e-6, 8e-6)), 2);
  TapDistance only_rms = distance(1e-6, 2e-6);
  only_rms.other_rms = 1.2e-5;
  EXPECT_EQ(over_bar(only_rms), 3);
  EXPECT_EQ(over_bar(distance(0, 0)), 0);
  EXPECT_EQ(over_bar(distance(0, 0x1p-21)), 2);  // the floor
}

TEST(Tap, OverBarWithoutFloat64IsThatOfTheFixedBar) {
  TapDistance d = distance(0, 0);
  d.has_exact = false;
  d.max_abs_error = 2e-5;
  EXPECT_EQ(over_bar(d), 2);
  d.max_abs = 16;  // in proportion
  EXPECT_EQ(over_bar(d), 1);
}

TEST(Tap, OverBarIsInfiniteForWhatCannotBeMeasured) {
  TapDistance d = distance(1e-6, 2e-6);
  d.not_finite = 1;
  EXPECT_EQ(over_bar(d), HUGE_VAL);
  EXPECT_EQ(over_bar(TapDistance()), HUGE_VAL);
  EXPECT_TRUE(to_json(missing_tap("a", "left"))["over_bar"].is_null());
}

TEST(Tap, ResultsKeepTheLargestOfAllProbes) {
  TapResult result;
  add(result, "a", distance(1e-6, 8e-6));
  add(result, "b", distance(1e-6, 2e-6));
  finish(result, kTolerances[0], Depth::layer);
  EXPECT_EQ(result.over_bar, 2);
  EXPECT_EQ(to_json(result)["over_bar"], 2.0);
}

}  // namespace
}  // namespace tandem
