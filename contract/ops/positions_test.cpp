#include "contract/ops/positions.h"

#include <gmock/gmock.h>

#include "contract/ops/op_testing.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;

TEST(Positions, C1MaskIsI32BatchTokens) {
  EXPECT_EQ(infer(node_of("positions"), {i32({"batch", "tokens"})}), "i32[batch, tokens]");
  EXPECT_EQ(infer(node_of("positions"), {i32({"tokens"})}),
            "positions_c1: attention_mask is i32[tokens], expected i32[batch, tokens]");
}

TEST(Positions, PaddingOnEitherSideDoesNotCount) {
  const Value<double> mask{{3, 4}, {0, 0, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1}};
  EXPECT_THAT(run_f64(node_of("positions"), {mask}).value()[0].data,
              ElementsAre(0, 0, 0, 1, 0, 1, 2, 2, 0, 1, 2, 3));
}

}  // namespace
}  // namespace tandem
