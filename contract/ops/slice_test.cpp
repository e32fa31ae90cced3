#include "contract/ops/slice.h"

#include <gmock/gmock.h>

#include "contract/ops/op_testing.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;

Node slice(int64_t begin, int64_t size) { return node_of("slice", {{"begin", begin}, {"size", size}}); }

TEST(Slice, C1TheLastAxisIsFixed) {
  EXPECT_EQ(infer(slice(1, 2), {f32({"batch", "n"})}),
            "slice_c1: x is f32[batch, n], expected a last axis of a fixed size");
}

TEST(Slice, C2ThePartLiesInTheAxis) {
  EXPECT_EQ(infer(slice(1, 2), {f32({"batch", 3})}), "f32[batch, 2]");
  for (const auto& [begin, size] :
       {std::pair<int64_t, int64_t>{2, 2}, {-1, 2}, {0, 0}, {INT64_MAX, 1}, {1, INT64_MAX}})
    EXPECT_EQ(infer(slice(begin, size), {f32({"batch", 3})}),
              fmt::format("slice_c2: begin is {} and size is {}, the last axis has 3", begin, size));
}

TEST(Slice, TakesThePartOfEveryRow) {
  EXPECT_THAT(run_f64(slice(1, 2), {{{2, 3}, {0, 1, 2, 3, 4, 5}}}).value()[0].data, ElementsAre(1, 2, 4, 5));
}

}  // namespace
}  // namespace tandem
