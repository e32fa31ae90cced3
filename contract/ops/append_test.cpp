#include "contract/ops/append.h"

#include <gmock/gmock.h>

#include "contract/ops/op_testing.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;

Node append(int64_t axis = 1, std::string length = "keys") {
  return node_of("append", {{"axis", axis}, {"length", std::move(length)}});
}

TEST(Append, C1TheAxisIsOneOfPastsButNotTheFirst) {
  EXPECT_EQ(infer(append(), {f32({"batch", "past", 2}), f32({"batch", 1, 2})}), "f32[batch, keys, 2]");
  for (const int64_t axis : {0, 3, -1})
    EXPECT_EQ(infer(append(axis), {f32({"batch", "past", 2}), f32({"batch", 1, 2})}),
              fmt::format("append_c1: axis is {}, expected one of f32[batch, past, 2] but the first", axis));
}

TEST(Append, C2TheOtherAxesAreEqual) {
  EXPECT_EQ(infer(append(), {f32({"batch", "past", 2}), f32({"batch", 1, 3})}),
            "append_c2: past is f32[batch, past, 2] and new is f32[batch, 1, 3], expected equal types but "
            "for axis 1");
  EXPECT_EQ(infer(append(), {f32({"batch", "past", 2}), f32({"batch"})}),
            "append_c2: past is f32[batch, past, 2] and new is f32[batch], expected equal types but for "
            "axis 1");
}

TEST(Append, C3TheLengthHasANameOfItsOwn) {
  for (const char* taken : {"", "past", "tokens"})
    EXPECT_EQ(
        infer(append(1, taken), {f32({"batch", "past"}), f32({"batch", "tokens"})}),
        fmt::format("append_c3: length is \"{}\", expected a name of its own for axis 1 of both", taken));
}

TEST(Append, EveryRowOfTheBatchGrows) {
  const auto y = run_f64(append(), {{{2, 1, 2}, {1, 2, 3, 4}}, {{2, 2, 2}, {10, 11, 12, 13, 20, 21, 22, 23}}})
                     .value()[0];
  EXPECT_EQ(y.shape, (Shape{2, 3, 2}));
  EXPECT_THAT(y.data, ElementsAre(1, 2, 10, 11, 12, 13, 3, 4, 20, 21, 22, 23));
  EXPECT_THAT(run_f64(append(), {{{1, 0}, {}}, {{1, 2}, {5, 6}}}).value()[0].data, ElementsAre(5, 6));
}

}  // namespace
}  // namespace tandem
