#include "contract/ops/select.h"

#include <gmock/gmock.h>

#include "contract/ops/op_testing.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;

Node select(int64_t axis, int64_t index) { return node_of("select", {{"axis", axis}, {"index", index}}); }

TEST(Select, C1XHasTwoAxes) {
  EXPECT_EQ(infer(select(1, 0), {f32({3})}), "select_c1: x is f32[3], expected two axes or more");
}

TEST(Select, C2AxisIsNotTheBatch) {
  EXPECT_EQ(infer(select(1, 2), {i32({"batch", 3, "tokens"})}), "i32[batch, tokens]");
  EXPECT_EQ(infer(select(0, 0), {f32({3, 4})}), "select_c2: axis is 0, expected 1 to 1");
  EXPECT_EQ(infer(select(2, 0), {f32({3, 4})}), "select_c2: axis is 2, expected 1 to 1");
}

TEST(Select, C3IndexLiesInAFixedAxis) {
  EXPECT_EQ(infer(select(1, 4), {f32({3, 4})}), "select_c3: index is 4, axis 1 of x is 4");
  EXPECT_EQ(infer(select(1, 0), {f32({3, "tokens"})}), "select_c3: index is 0, axis 1 of x is tokens");
}

TEST(Select, TakesOneSlice) {
  const auto y = run_f64(select(1, 1), {{{2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7}}}).value()[0];
  EXPECT_EQ(y.shape, (Shape{2, 2}));
  EXPECT_THAT(y.data, ElementsAre(2, 3, 6, 7));
}

}  // namespace
}  // namespace tandem
