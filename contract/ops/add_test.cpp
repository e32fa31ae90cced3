#include "contract/ops/add.h"

#include <gmock/gmock.h>

#include "contract/ops/op_testing.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;

TEST(Add, C1XIsFloat) {
  EXPECT_EQ(infer(node_of("add"), {f32({"batch", 8}), f32({"batch", 8})}), "f32[batch, 8]");
  EXPECT_EQ(infer(node_of("add"), {i32({8}), i32({8})}), "add_c1: x is i32[8], expected a float type");
}

TEST(Add, C2YIsOfTheSameType) {
  EXPECT_EQ(infer(node_of("add"), {f32({8}), f32({7})}), "add_c2: y is f32[7], expected f32[8] as x");
  EXPECT_EQ(infer(node_of("add"), {f32({"batch"}), f32({"tokens"})}),
            "add_c2: y is f32[tokens], expected f32[batch] as x");
}

TEST(Add, AddsElementByElement) {
  EXPECT_THAT(run_f64(node_of("add"), {{{2}, {1, 2}}, {{2}, {0.5, -2}}}).value()[0].data,
              ElementsAre(1.5, 0));
}

}  // namespace
}  // namespace tandem
