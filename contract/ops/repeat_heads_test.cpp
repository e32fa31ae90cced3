#include "contract/ops/repeat_heads.h"

#include <gmock/gmock.h>

#include "contract/ops/op_testing.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;

Node repeat(int64_t heads) { return node_of("repeat_heads", {{"heads", heads}}); }

TEST(RepeatHeads, C1XHasOneHead) {
  EXPECT_EQ(infer(repeat(4), {f32({"batch", 1, "tokens", 2})}), "f32[batch, 4, tokens, 2]");
  EXPECT_EQ(
      infer(repeat(4), {f32({"batch", 2, "tokens", 2})}),
      "repeat_heads_c1: x is f32[batch, 2, tokens, 2], expected a float type and [batch, 1, tokens, size]");
}

TEST(RepeatHeads, C2ThereIsAHead) {
  EXPECT_EQ(infer(repeat(0), {f32({"batch", 1, "tokens", 2})}),
            "repeat_heads_c2: heads is 0, expected at least 1");
}

TEST(RepeatHeads, EverySequenceKeepsItsOwnHead) {
  EXPECT_THAT(run_f64(repeat(2), {{{2, 1, 1, 2}, {1, 2, 3, 4}}}).value()[0].data,
              ElementsAre(1, 2, 1, 2, 3, 4, 3, 4));
}

}  // namespace
}  // namespace tandem
