#include "contract/ops/concat.h"

#include <gmock/gmock.h>

#include "contract/ops/op_testing.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;

TEST(Concat, C1TheLastAxesAreFixed) {
  EXPECT_EQ(infer(node_of("concat"), {f32({"batch", 2}), f32({"batch", 3})}), "f32[batch, 5]");
  EXPECT_EQ(infer(node_of("concat"), {f32({2, "n"}), f32({2, 3})}),
            "concat_c1: an operand is f32[2, n], expected a last axis of a fixed size");
}

TEST(Concat, C2TheOtherAxesAreEqual) {
  EXPECT_EQ(infer(node_of("concat"), {f32({4, 2}), f32({5, 2})}),
            "concat_c2: x is f32[4, 2] and y is f32[5, 2], expected equal types but for the last axis");
  EXPECT_EQ(infer(node_of("concat"), {f32({UINT64_MAX}), f32({1})}),
            "concat_c2: the last axes of f32[18446744073709551615] and f32[1] do not add up in 64 bits");
}

TEST(Concat, JoinsRowByRow) {
  const auto z = run_f64(node_of("concat"), {{{2, 1}, {1, 2}}, {{2, 2}, {10, 11, 20, 21}}}).value()[0];
  EXPECT_EQ(z.shape, (Shape{2, 3}));
  EXPECT_THAT(z.data, ElementsAre(1, 10, 11, 2, 20, 21));
}

}  // namespace
}  // namespace tandem
