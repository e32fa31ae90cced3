#include "engines/tf/steps.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(BucketOf, TheLeastLengthThatHoldsTheTokens) {
  for (const auto& [tokens, bucket] : std::map<uint64_t, uint64_t>{{1, 64},
                                                                   {64, 64},
                                                                   {65, 96},
                                                                   {96, 96},
                                                                   {97, 128},
                                                                   {129, 192},
                                                                   {193, 256},
                                                                   {4096, 4096},
                                                                   {4097, 6144}})
    EXPECT_EQ(bucket_of(tokens), bucket) << tokens;
}

}  // namespace
}  // namespace tandem
