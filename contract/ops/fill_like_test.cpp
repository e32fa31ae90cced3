#include "contract/ops/fill_like.h"

#include <gmock/gmock.h>

#include "contract/ops/op_testing.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;

Node fill(int64_t value, std::vector<int64_t> last) {
  return node_of("fill_like", {{"value", value}, {"last", last}});
}

TEST(FillLike, C1XHasBatchAndTokens) {
  EXPECT_EQ(infer(fill(1, {}), {f32({"batch", "tokens", 16})}), "i32[batch, tokens]");
  EXPECT_EQ(infer(fill(1, {}), {f32({"batch"})}),
            "fill_like_c1: x is f32[batch], expected [batch, tokens, ...]");
}

TEST(FillLike, C2SizesAreAtLeastOne) {
  EXPECT_EQ(infer(fill(-1, {3, 0}), {i32({"batch", "tokens"})}),
            "fill_like_c2: last holds 0, expected sizes of at least 1");
}

TEST(FillLike, C3TheValueFitsInI32) {
  EXPECT_EQ(infer(fill(int64_t{1} << 31, {}), {i32({"batch", "tokens"})}),
            "fill_like_c3: value is 2147483648, which does not fit in i32");
}

TEST(FillLike, FillsAllAxes) {
  const auto y = run_f32(fill(-1, {2}), {{{1, 2, 5}, std::vector<float>(10)}}).value()[0];
  EXPECT_EQ(y.shape, (Shape{1, 2, 2}));
  EXPECT_THAT(y.data, ElementsAre(-1, -1, -1, -1));
}

}  // namespace
}  // namespace tandem
