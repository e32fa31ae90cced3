#include "contract/ops/linear.h"

#include <gmock/gmock.h>

#include "contract/ops/op_testing.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;

Node linear(const char* layout) { return node_of("linear", {{"layout", std::string(layout)}}); }

TEST(Linear, C1XIsFloatAndHasALastAxis) {
  EXPECT_EQ(infer(linear("in_out"), {f32({"batch", 3}), f32({3, 5})}), "f32[batch, 5]");
  EXPECT_EQ(infer(linear("in_out"), {f32({}), f32({3, 5})}),
            "linear_c1: x is f32[], expected a float type and a last axis");
}

TEST(Linear, C2KernelLiesAsTheLayoutSays) {
  EXPECT_EQ(infer(linear("out_in"), {f32({"batch", 3}), f32({5, 3})}), "f32[batch, 5]");
  EXPECT_EQ(infer(linear("out_in"), {f32({"batch", 3}), f32({3, 5})}),
            "linear_c2: kernel is f32[3, 5], expected f32 [out, in] with in = 3");
  EXPECT_EQ(infer(linear("in_out"), {f32({3}), bf16({3, 5})}),
            "linear_c2: kernel is bf16[3, 5], expected f32 [in, out] with in = 3");
}

TEST(Linear, C3BiasIsAsLongAsTheOutput) {
  EXPECT_EQ(infer(linear("in_out"), {f32({3}), f32({3, 5}), f32({5})}), "f32[5]");
  EXPECT_EQ(infer(linear("in_out"), {f32({3}), f32({3, 5}), f32({3})}),
            "linear_c3: bias is f32[3], expected f32[5]");
}

TEST(Linear, C4LayoutIsOneOfTwo) {
  EXPECT_EQ(infer(linear("io"), {f32({3}), f32({3, 5})}),
            "linear_c4: layout is \"io\", expected \"in_out\" or \"out_in\"");
}

// Five inputs, so that both the unrolled part of the sum and its rest count.
TEST(Linear, BothLayoutsComputeTheSame) {
  const Value<double> x{{1, 5}, {1, 2, 3, 4, 5}}, bias{{2}, {0.5, -0.5}};
  const Value<double> in_out{{5, 2}, {1, 10, 2, 20, 3, 30, 4, 40, 5, 50}};
  const Value<double> out_in{{2, 5}, {1, 2, 3, 4, 5, 10, 20, 30, 40, 50}};
  EXPECT_THAT(run_f64(linear("in_out"), {x, in_out, bias}).value()[0].data, ElementsAre(55.5, 549.5));
  EXPECT_THAT(run_f64(linear("out_in"), {x, out_in, bias}).value()[0].data, ElementsAre(55.5, 549.5));
  EXPECT_THAT(run_f64(linear("out_in"), {x, out_in}).value()[0].data, ElementsAre(55, 550));
}

}  // namespace
}  // namespace tandem
