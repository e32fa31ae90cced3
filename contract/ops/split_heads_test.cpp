#include "contract/ops/split_heads.h"

#include <gmock/gmock.h>

#include "contract/ops/op_testing.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;

Node split(int64_t heads) { return node_of("split_heads", {{"heads", heads}}); }

TEST(SplitHeads, C1XIsBatchTokensWidth) {
  EXPECT_EQ(infer(split(2), {f32({"batch", "tokens", 6})}), "f32[batch, 2, tokens, 3]");
  EXPECT_EQ(infer(split(2), {f32({"batch", 6})}),
            "split_heads_c1: x is f32[batch, 6], expected a float type and [batch, tokens, heads * size]");
}

TEST(SplitHeads, C2HeadsShareTheLastAxis) {
  EXPECT_EQ(infer(split(4), {f32({"batch", "tokens", 6})}),
            "split_heads_c2: 4 heads do not share a last axis of 6");
  EXPECT_EQ(infer(split(0), {f32({"batch", "tokens", 6})}),
            "split_heads_c2: 0 heads do not share a last axis of 6");
}

// Two tokens, two heads of two: the head axis moves before the tokens.
TEST(SplitHeads, TheHeadAxisComesBeforeTheTokens) {
  const auto y = run_f64(split(2), {{{1, 2, 4}, {0, 1, 2, 3, 4, 5, 6, 7}}}).value()[0];
  EXPECT_EQ(y.shape, (Shape{1, 2, 2, 2}));
  EXPECT_THAT(y.data, ElementsAre(0, 1, 4, 5, 2, 3, 6, 7));
}

}  // namespace
}  // namespace tandem
