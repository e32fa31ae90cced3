#include "contract/ops/gather_heads.h"

#include <gmock/gmock.h>

#include "contract/ops/op_testing.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;

Node gather(std::vector<int64_t> order) { return node_of("gather_heads", {{"order", std::move(order)}}); }

TEST(GatherHeads, C1XHasAFixedNumberOfHeads) {
  EXPECT_EQ(infer(gather({1, 0, 1}), {f32({"batch", 2, "tokens", 4})}), "f32[batch, 3, tokens, 4]");
  EXPECT_EQ(infer(gather({0}), {f32({"batch", "heads", "tokens", 4})}),
            "gather_heads_c1: x is f32[batch, heads, tokens, 4], expected a float type and [batch, heads, "
            "tokens, size]");
}

TEST(GatherHeads, C2OrderNamesHeads) {
  const TensorType x = f32({"batch", 2, "tokens", 4});
  EXPECT_EQ(infer(gather({}), {x}), "gather_heads_c2: order is empty");
  EXPECT_EQ(infer(gather({0, 2}), {x}), "gather_heads_c2: order holds 2, x has 2 heads");
  EXPECT_EQ(infer(gather({-1}), {x}), "gather_heads_c2: order holds -1, x has 2 heads");
}

TEST(GatherHeads, HeadsComeInTheOrderNamed) {
  const Value<double> x{{2, 2, 1, 2}, {1, 2, 3, 4, 5, 6, 7, 8}};
  EXPECT_THAT(run_f64(gather({1, 0, 1}), {x}).value()[0].data,
              ElementsAre(3, 4, 1, 2, 3, 4, 7, 8, 5, 6, 7, 8));
}

}  // namespace
}  // namespace tandem
