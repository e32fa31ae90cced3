#include "contract/ops/cached_attention.h"

#include <gmock/gmock.h>

#include "contract/ops/op_testing.h"

namespace tandem {
namespace {

struct Operands {
  TensorType q = f32({"batch", 4, 1, 6}), past_k = f32({"batch", 2, "past", 6}),
             past_v = f32({"batch", 2, "past", 3}), k = f32({"batch", 2, 1, 6}), v = f32({"batch", 2, 1, 3});
  TensorType mask = i32({"batch", "past"});
  double scale = 0.5;
  std::string infer() const {
    return tandem::infer(node_of("cached_attention", {{"scale", scale}}), {q, past_k, past_v, k, v, mask});
  }
};

TEST(CachedAttention, C1QIsOneToken) {
  EXPECT_EQ(Operands{}.infer(), "f32[batch, 4, 1, 3]");
  EXPECT_EQ(Operands{.q = f32({"batch", 4, "tokens", 6})}.infer(),
            "cached_attention_c1: q is f32[batch, 4, tokens, 6], expected a float type and [batch, heads, 1, "
            "k]");
}

TEST(CachedAttention, C2KIsARowOfItsCache) {
  EXPECT_EQ(Operands{.k = f32({"batch", 2, 2, 6})}.infer(),
            "cached_attention_c2: past_k is f32[batch, 2, past, 6] and k is f32[batch, 2, 2, 6], expected a "
            "cache and a row for q, f32[batch, 4, 1, 6]");
}

TEST(CachedAttention, C3VIsARowOfItsCache) {
  EXPECT_EQ(Operands{.past_v = f32({"batch", 2, "keys", 3})}.infer(),
            "cached_attention_c3: past_v is f32[batch, 2, keys, 3] and v is f32[batch, 2, 1, 3], expected a "
            "cache and a row like f32[batch, 2, past, 6]");
}

TEST(CachedAttention, C4KvHeadsDivideTheQueryHeads) {
  EXPECT_EQ(Operands{.q = f32({"batch", 3, 1, 6})}.infer(),
            "cached_attention_c4: 3 query heads do not share 2 kv heads");
}

TEST(CachedAttention, C5TheMaskIsOfTheCache) {
  EXPECT_EQ(Operands{.mask = i32({"batch", "keys"})}.infer(),
            "cached_attention_c5: attention_mask is i32[batch, keys], expected i32[batch, past]");
}

TEST(CachedAttention, C6ScaleIsPositive) {
  EXPECT_EQ(Operands{.scale = 0}.infer(), "cached_attention_c6: scale is 0, expected a number above 0");
}

TEST(CachedAttention, SlotsThatAreNotSeenMayHoldAnything) {
  const Value<double> q{{1, 1, 1, 1}, {1}}, k{{1, 1, 1, 1}, {0.4}}, v{{1, 1, 1, 1}, {1000}};
  const Value<double> past{{1, 1, 3, 1}, {0.3, -0.2, 9e9}}, values{{1, 1, 3, 1}, {1, 10, -9e9}};
  const auto y =
      run_f64(node_of("cached_attention", {{"scale", 1.0}}), {q, past, values, k, v, {{1, 3}, {1, 1, 0}}});
  const Value<double> keys{{1, 1, 3, 1}, {0.3, -0.2, 0.4}}, all{{1, 1, 3, 1}, {1, 10, 1000}};
  const auto whole = run_f64(node_of("attention", {{"scale", 1.0}}), {q, keys, all, {{1, 3}, {1, 1, 1}}});
  EXPECT_THAT(y.value()[0].data, testing::ElementsAre(testing::DoubleNear(whole.value()[0].data[0], 1e-12)));
}

}  // namespace
}  // namespace tandem
