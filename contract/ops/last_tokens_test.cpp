#include "contract/ops/last_tokens.h"

#include <gmock/gmock.h>

#include "contract/ops/op_testing.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;

Node last(int64_t count) { return node_of("last_tokens", {{"count", count}}); }

TEST(LastTokens, C1XHasTokens) {
  EXPECT_EQ(infer(last(1), {i32({"batch", "tokens"})}), "i32[batch, 1]");
  EXPECT_EQ(infer(last(2), {f32({"batch", 3, 8})}), "f32[batch, 2, 8]");
  EXPECT_EQ(infer(last(1), {f32({"batch"})}),
            "last_tokens_c1: x is f32[batch], expected [batch, tokens, ...]");
}

TEST(LastTokens, C2ThereAreSoMany) {
  EXPECT_EQ(infer(last(4), {f32({"batch", 3, 8})}),
            "last_tokens_c2: count is 4, expected 1 to the 3 tokens of x");
  EXPECT_EQ(infer(last(0), {f32({"batch", "tokens"})}),
            "last_tokens_c2: count is 0, expected 1 to the 2147483647 tokens of x");
  EXPECT_EQ(run_f64(last(2), {{{2, 1}, {1, 2}}}).error().message(),
            "last_tokens_c2: count is 2, expected 1 to the 1 tokens of x");
}

TEST(LastTokens, OfEveryRow) {
  const auto y = run_f64(last(1), {{{2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}}}).value()[0];
  EXPECT_EQ(y.shape, (Shape{2, 1, 2}));
  EXPECT_THAT(y.data, ElementsAre(3, 4, 7, 8));
}

}  // namespace
}  // namespace tandem
