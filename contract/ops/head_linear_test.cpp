#include "contract/ops/head_linear.h"

#include <gmock/gmock.h>

#include "contract/ops/op_testing.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;

Node head_linear(bool transpose = false, int64_t begin = 1, int64_t size = 2, std::string layout = "in_out") {
  return node_of("head_linear",
                 {{"layout", std::move(layout)}, {"begin", begin}, {"size", size}, {"transpose", transpose}});
}

TEST(HeadLinear, C1XHasHeads) {
  EXPECT_EQ(infer(head_linear(), {f32({"batch", 2, "tokens", 5}), f32({5, 6})}), "f32[batch, 2, tokens, 2]");
  EXPECT_EQ(infer(head_linear(true), {f32({"batch", 2, "tokens", 2}), f32({5, 6})}),
            "f32[batch, 2, tokens, 5]");
  EXPECT_EQ(infer(head_linear(), {f32({"batch", "heads", "tokens", 5}), f32({5, 6})}),
            "head_linear_c1: x is f32[batch, heads, tokens, 5], expected a float type and [batch, heads, "
            "tokens, n]");
}

TEST(HeadLinear, C2TheHeadsShareTheKernel) {
  EXPECT_EQ(infer(head_linear(), {f32({"batch", 2, "tokens", 5}), f32({5, 7})}),
            "head_linear_c2: kernel is f32[5, 7], expected f32 [in, heads * width] for 2 heads");
  EXPECT_EQ(infer(head_linear(false, 1, 2, "out_in"), {f32({"batch", 2, "tokens", 5}), bf16({6, 5})}),
            "head_linear_c2: kernel is bf16[6, 5], expected f32 [heads * width, in] for 2 heads");
}

TEST(HeadLinear, C3ThePartLiesInTheWidth) {
  for (const auto& [begin, size] : {std::pair{-1, 1}, {0, 0}, {2, 2}, {4, 1}})
    EXPECT_EQ(
        infer(head_linear(false, begin, size), {f32({"batch", 2, "tokens", 5}), f32({5, 6})}),
        fmt::format("head_linear_c3: begin is {} and size {}, expected a part of 3 lanes", begin, size));
}

TEST(HeadLinear, C4XIsWhatTheKernelLeadsFrom) {
  EXPECT_EQ(infer(head_linear(), {f32({"batch", 2, "tokens", 4}), f32({5, 6})}),
            "head_linear_c4: x is f32[batch, 2, tokens, 4], expected a last axis of 5");
  EXPECT_EQ(infer(head_linear(true), {f32({"batch", 2, "tokens", 5}), f32({5, 6})}),
            "head_linear_c4: x is f32[batch, 2, tokens, 5], expected a last axis of 2");
}

TEST(HeadLinear, C5LayoutIsOneOfTwo) {
  EXPECT_EQ(infer(head_linear(false, 1, 2, "io"), {f32({"batch", 2, "tokens", 5}), f32({5, 6})}),
            "head_linear_c5: layout is \"io\", expected \"in_out\" or \"out_in\"");
}

TEST(HeadLinear, EachHeadHasItsLanesOfTheKernel) {
  const Value<double> kernel{{1, 4}, {1, 10, 100, 1000}};  // one input, two heads of two lanes
  const auto y = run_f64(head_linear(false, 1, 1), {{{1, 2, 1, 1}, {3, 5}}, kernel}).value()[0];
  EXPECT_THAT(y.data, ElementsAre(30, 5000));
  const auto back = run_f64(head_linear(true, 0, 2), {{{1, 2, 1, 2}, {1, 2, 3, 4}}, kernel}).value()[0];
  EXPECT_EQ(back.shape, (Shape{1, 2, 1, 1}));
  EXPECT_THAT(back.data, ElementsAre(1 + 20, 300 + 4000));
  const auto same =
      run_f64(head_linear(true, 0, 2, "out_in"), {{{1, 2, 1, 2}, {1, 2, 3, 4}}, {{4, 1}, kernel.data}});
  EXPECT_EQ(same.value()[0].data, back.data);
}

}  // namespace
}  // namespace tandem
