#include "contract/ops/cast.h"

#include <gmock/gmock.h>

#include "contract/ops/op_testing.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;

Node to(const char* dtype) { return node_of("cast", {{"dtype", std::string(dtype)}}); }

TEST(Cast, C1DtypeIsKnown) {
  EXPECT_EQ(infer(to("f32"), {bf16({"batch", 2})}), "f32[batch, 2]");
  EXPECT_EQ(infer(to("f33"), {bf16({2})}), "cast_op_c1: there is no dtype \"f33\"");
}

TEST(Cast, C2FractionsAreNotDropped) {
  EXPECT_EQ(infer(to("i32"), {f32({2})}),
            "cast_op_c2: f32[2] to i32 would drop fractions; no op here does that");
  EXPECT_EQ(infer(to("f32"), {i32({2})}), "f32[2]");
}

TEST(Cast, RoundsToNearestEvenInF32AndNotAtAllInF64) {
  const float half_way = 1.00390625f;  // between the bf16 numbers 1 and 1.0078125
  EXPECT_THAT(run_f32(to("bf16"), {{{2}, {half_way, 1.01171875f}}}).value()[0].data,
              ElementsAre(1.0f, 1.015625f));
  EXPECT_THAT(run_f64(to("bf16"), {{{1}, {half_way}}}).value()[0].data, ElementsAre(half_way));
}

TEST(Cast, AlwaysRoundsInF64Too) {
  const Node node = node_of("cast", {{"dtype", std::string("bf16")}, {"always", true}});
  EXPECT_THAT(run_f64(node, {{{2}, {1.00390625, 1.01171875}}}).value()[0].data, ElementsAre(1.0, 1.015625));
}

}  // namespace
}  // namespace tandem
