#include "contract/ops/roll.h"

#include <gmock/gmock.h>

#include "contract/ops/op_testing.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;

Node roll(int64_t axis, int64_t shift) { return node_of("roll", {{"axis", axis}, {"shift", shift}}); }

TEST(Roll, C1TheAxisIsThere) {
  EXPECT_EQ(infer(roll(1, 1), {i32({"batch", "tokens"})}), "i32[batch, tokens]");
  EXPECT_EQ(infer(roll(2, 1), {i32({"batch", "tokens"})}), "roll_c1: axis is 2, x is i32[batch, tokens]");
  EXPECT_EQ(infer(roll(-1, 1), {i32({"batch", "tokens"})}), "roll_c1: axis is -1, x is i32[batch, tokens]");
}

TEST(Roll, C2TheShiftIsSmall) {
  EXPECT_EQ(infer(roll(0, 1 << 21), {i32({"batch"})}),
            "roll_c2: shift is 2097152, expected 1048576 at most either way");
}

TEST(Roll, WhatLeavesAtOneEndComesInAtTheOther) {
  const Value<double> x{{3, 2}, {1, 2, 3, 4, 5, 6}};
  EXPECT_THAT(run_f64(roll(0, 1), {x}).value()[0].data, ElementsAre(5, 6, 1, 2, 3, 4));
  EXPECT_THAT(run_f64(roll(1, -1), {x}).value()[0].data, ElementsAre(2, 1, 4, 3, 6, 5));
  EXPECT_THAT(run_f64(roll(0, -4), {x}).value()[0].data, ElementsAre(3, 4, 5, 6, 1, 2));
  EXPECT_THAT(run_f64(roll(0, 1), {{{0, 2}, {}}}).value()[0].data, ElementsAre());
}

}  // namespace
}  // namespace tandem
