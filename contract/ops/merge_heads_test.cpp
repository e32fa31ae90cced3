#include "contract/ops/merge_heads.h"

#include <gmock/gmock.h>

#include "contract/ops/op_testing.h"

namespace tandem {
namespace {

TEST(MergeHeads, C1XHasFourAxes) {
  EXPECT_EQ(infer(node_of("merge_heads"), {f32({"batch", 2, "tokens", 3})}), "f32[batch, tokens, 6]");
  EXPECT_EQ(infer(node_of("merge_heads"), {f32({"batch", 2, 3})}),
            "merge_heads_c1: x is f32[batch, 2, 3], expected a float type and [batch, heads, tokens, size]");
}

TEST(MergeHeads, C2HeadsAndSizeAreFixed) {
  EXPECT_EQ(infer(node_of("merge_heads"), {f32({"batch", "heads", "tokens", 3})}),
            "merge_heads_c2: x is f32[batch, heads, tokens, 3], expected fixed heads and size with a product "
            "below 2^64");
}

TEST(MergeHeads, UndoesSplitHeads) {
  const Value<double> x{
      {2, 3, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}};
  const auto heads = run_f64(node_of("split_heads", {{"heads", int64_t{2}}}), {x}).value();
  EXPECT_EQ(run_f64(node_of("merge_heads"), heads).value()[0].data, x.data);
}

}  // namespace
}  // namespace tandem
