#include "contract/ops/embedding.h"

#include <gmock/gmock.h>

#include "contract/ops/op_testing.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;

TEST(Embedding, C1IdsAreI32) {
  EXPECT_EQ(infer(node_of("embedding"), {i32({"batch", "tokens"}), f32({9, 4})}), "f32[batch, tokens, 4]");
  EXPECT_EQ(infer(node_of("embedding"), {f32({"batch"}), f32({9, 4})}),
            "embedding_c1: ids are f32[batch], expected i32");
}

TEST(Embedding, C2TableIsAMatrix) {
  EXPECT_EQ(infer(node_of("embedding"), {i32({"batch"}), f32({9})}),
            "embedding_c2: table is f32[9], expected a float type and [vocab, hidden]");
}

TEST(Embedding, C3AnIdBeyondTheVocabularyIsAnError) {
  const Value<double> table{{2, 2}, {1, 2, 3, 4}};
  EXPECT_THAT(run_f64(node_of("embedding"), {{{3}, {1, 0, 1}}, table}).value()[0].data,
              ElementsAre(3, 4, 1, 2, 3, 4));
  for (const double id : {2.0, -1.0})
    EXPECT_EQ(run_f64(node_of("embedding"), {{{1}, {id}}, table}).error().message(),
              fmt::format("embedding_c3: id {} is not in the vocabulary of 2 tokens", id));
}

}  // namespace
}  // namespace tandem
