#include "contract/ops/attention.h"

#include <gmock/gmock.h>

#include <cmath>

#include "contract/ops/op_testing.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;

Node attention(double scale) { return node_of("attention", {{"scale", scale}}); }

struct Operands {
  TensorType q = f32({"batch", 4, "tokens", 6}), k = f32({"batch", 2, "tokens", 6}),
             v = f32({"batch", 2, "tokens", 3});
  TensorType mask = i32({"batch", "tokens"});
  std::string infer(double scale = 0.5) const { return tandem::infer(attention(scale), {q, k, v, mask}); }
};

TEST(Attention, C1QHasFourAxes) {
  EXPECT_EQ(Operands{}.infer(), "f32[batch, 4, tokens, 3]");
  EXPECT_EQ(Operands{.q = f32({4, 6})}.infer(),
            "attention_c1: q is f32[4, 6], expected a float type and [batch, heads, tokens, k]");
}

TEST(Attention, C2KIsLikeQ) {
  EXPECT_EQ(Operands{.k = f32({"batch", 2, "tokens", 5})}.infer(),
            "attention_c2: k is f32[batch, 2, tokens, 5], expected [batch, kv_heads, keys, k] like q, "
            "f32[batch, 4, tokens, 6]");
}

TEST(Attention, C3VIsLikeK) {
  EXPECT_EQ(Operands{.v = f32({"batch", 4, "tokens", 3})}.infer(),
            "attention_c3: v is f32[batch, 4, tokens, 3], expected [batch, kv_heads, keys, v] like k, "
            "f32[batch, 2, tokens, 6]");
}

TEST(Attention, C4KvHeadsDivideTheQueryHeads) {
  EXPECT_EQ((Operands{.k = f32({"batch", 3, "tokens", 6}), .v = f32({"batch", 3, "tokens", 3})}.infer()),
            "attention_c4: 4 query heads do not share 3 kv heads");
}

TEST(Attention, C5MaskIsI32BatchTokens) {
  EXPECT_EQ(Operands{.mask = f32({"batch", "tokens"})}.infer(),
            "attention_c5: attention_mask is f32[batch, tokens], expected i32[batch, tokens]");
}

TEST(Attention, C6ScaleIsPositive) {
  EXPECT_EQ(Operands{}.infer(0), "attention_c6: scale is 0, expected a number above 0");
}

TEST(Attention, C7ADiagonalBelongsToCausalAttention) {
  const Operands in;
  const auto of = [&](Attributes attributes) {
    attributes["scale"] = 1.0;
    return tandem::infer(node_of("attention", attributes), {in.q, in.k, in.v, in.mask});
  };
  EXPECT_EQ(of({{"causal", true}, {"diagonal", int64_t{1}}}), "f32[batch, 4, tokens, 3]");
  EXPECT_EQ(of({{"causal", false}, {"diagonal", int64_t{1}}}),
            "attention_c7: diagonal is 1 though causal is false");
  EXPECT_EQ(of({{"diagonal", int64_t{-2000000}}}),
            "attention_c7: diagonal is -2000000, expected 1048576 at most either way");
}

TEST(Attention, C8TheSoftmaxHasAFloatType) {
  const Operands in;
  EXPECT_EQ(tandem::infer(node_of("attention", {{"scale", 1.0}, {"softmax_dtype", std::string("i32")}}),
                          {in.q, in.k, in.v, in.mask}),
            "attention_c8: softmax_dtype is \"i32\", expected f32, bf16 or f16");
}

// Three keys of equal score whose values are 1, 10 and 100: the mean tells which were seen.
TEST(Attention, WhichKeysAQuerySees) {
  const Value<double> q{{1, 1, 3, 1}, {0, 0, 0}}, v{{1, 1, 3, 1}, {3, 30, 300}}, mask{{1, 3}, {1, 1, 1}};
  const auto seen = [&](Attributes attributes) {
    attributes["scale"] = 1.0;
    return run_f64(node_of("attention", attributes), {q, q, v, mask}).value()[0].data;
  };
  EXPECT_THAT(seen({}), ElementsAre(3, 16.5, 111));
  EXPECT_THAT(seen({{"causal", false}}), ElementsAre(111, 111, 111));
  EXPECT_THAT(seen({{"diagonal", int64_t{1}}}), ElementsAre(16.5, 111, 111));
  EXPECT_THAT(seen({{"diagonal", int64_t{-1}}}),
              ElementsAre(111, 3, 16.5));  // the first sees none: all alike
}

TEST(Attention, ASoftmaxOfItsOwnTypeRoundsInF64Too) {
  const Value<double> q{{1, 1, 3, 1}, {0, 0, 0}}, v{{1, 1, 3, 1}, {1, 0, 0}}, mask{{1, 3}, {1, 1, 1}};
  const auto y = run_f64(node_of("attention", {{"scale", 1.0}, {"softmax_dtype", std::string("bf16")}}),
                         {q, q, v, mask});
  EXPECT_EQ(y.value()[0].data[2], 0.333984375);  // the bfloat16 nearest to 1/3
}

// Each kv head emits a constant, so the output tells which one a query head read.
TEST(Attention, L05QueryHeadsReadKvHeadsInGroups) {
  const Value<double> q{{1, 4, 1, 1}, {1, 1, 1, 1}}, k{{1, 2, 1, 1}, {1, 1}}, v{{1, 2, 1, 1}, {10, 20}};
  EXPECT_THAT(run_f64(attention(1), {q, k, v, {{1, 1}, {1}}}).value()[0].data, ElementsAre(10, 10, 20, 20));
}

// Scores 0 and ln 3 under scale 0.5: softmax gives 1/4 and 3/4.
TEST(Attention, TheScaleMultipliesScoresAndTheFutureIsBlocked) {
  const Value<double> q{{1, 1, 2, 1}, {1, 1}}, k{{1, 1, 2, 1}, {0, 2 * std::log(3.0)}},
      v{{1, 1, 2, 1}, {4, 8}};
  const auto y = run_f64(attention(0.5), {q, k, v, {{1, 2}, {1, 1}}}).value()[0];
  EXPECT_THAT(y.data[0], 4);
  EXPECT_NEAR(y.data[1], 7, 1e-12);
}

TEST(Attention, R13RowsWithoutAnyKeyAreFiniteAndRealRowsAreAsUnpadded) {
  const Value<float> q{{1, 1, 5, 1}, {9, -9, 3, 1, 2}}, k{{1, 1, 5, 1}, {7, -8, 5, 1, 3}};
  const Value<float> v{{1, 1, 5, 1}, {100, 200, 300, 1, 2}};
  const auto padded = run_f32(attention(1), {q, k, v, {{1, 5}, {0, 0, 0, 1, 1}}}).value()[0];
  const auto alone =
      run_f32(attention(1),
              {{{1, 1, 2, 1}, {1, 2}}, {{1, 1, 2, 1}, {1, 3}}, {{1, 1, 2, 1}, {1, 2}}, {{1, 2}, {1, 1}}})
          .value()[0];
  for (size_t t = 0; t < 3; ++t) EXPECT_FLOAT_EQ(padded.data[t], 603.0f / 5);  // evenly over all keys
  EXPECT_EQ(padded.data[3], alone.data[0]);
  EXPECT_EQ(padded.data[4], alone.data[1]);
}

TEST(Attention, C9EveryQueryHasItsKey) {
  EXPECT_EQ((Operands{.q = f32({"batch", 4, 1, 6}),
                      .k = f32({"batch", 2, "keys", 6}),
                      .v = f32({"batch", 2, "keys", 3}),
                      .mask = i32({"batch", "keys"})}
                 .infer()),
            "f32[batch, 4, 1, 3]");
  EXPECT_EQ((Operands{.q = f32({"batch", 4, 3, 6}),
                      .k = f32({"batch", 2, 2, 6}),
                      .v = f32({"batch", 2, 2, 3}),
                      .mask = i32({"batch", 2})}
                 .infer()),
            "attention_c9: there are 2 keys for 3 queries");
  const Value<double> two{{1, 1, 2, 1}, {1, 2}}, three{{1, 1, 3, 1}, {1, 2, 3}};
  EXPECT_EQ(run_f64(attention(1), {three, two, two, {{1, 2}, {1, 1}}}).error().message(),
            "attention_c9: there are 2 keys for 3 queries");
  EXPECT_EQ(run_f64(attention(1), {two, three, three, {{1, 2}, {1, 1}}}).error().message(),
            "attention_c9: there are 3 keys, 3 values and a mask [1, 2]");
}

TEST(Attention, TheQueriesAreThoseOfTheLastKeys) {
  const Value<double> keys{{1, 1, 4, 1}, {0.3, -0.2, 0.9, 0.4}}, values{{1, 1, 4, 1}, {1, 10, 100, 1000}},
      mask{{1, 4}, {0, 1, 1, 1}};
  const auto all = run_f64(attention(1), {keys, keys, values, mask}).value()[0];
  const Value<double> last{{1, 1, 2, 1}, {0.9, 0.4}};
  EXPECT_THAT(run_f64(attention(1), {last, keys, values, mask}).value()[0].data,
              ElementsAre(all.data[2], all.data[3]));
}

}  // namespace
}  // namespace tandem
