#include "verify/basis.h"

#include <gtest/gtest.h>

#include "base/hash.h"

namespace tandem {
namespace {

TEST(Basis, PromptsAreCountedAndHashed) {
  const std::vector<Probe> probes{make_probe("p", {{5, 6}, {7}}, Padding::left)};
  const PromptSet set = prompt_set("model", probes, "", 7);
  EXPECT_EQ(set.source, "built in");
  EXPECT_EQ(set.seed, 7u);
  EXPECT_EQ(set.probes, 1u);
  EXPECT_EQ(set.prompts, 2u);
  EXPECT_EQ(set.tokens, 3u);
  EXPECT_EQ(set.sha256, sha256_hex(as_bytes("p 2 2 5 6 0 7 1 1 0 1 0 1 0 0\n")));
  const PromptSet read = prompt_set("model", probes, "ids.txt", 7);
  EXPECT_EQ(read.source, "ids.txt");
  EXPECT_FALSE(read.seed);
}

TEST(Basis, AnotherIdMaskOrPositionIsAnotherHash) {
  std::vector<Probe> probes{make_probe("p", {{5, 6}}, Padding::left)};
  const std::string before = prompt_set("model", probes, "", 7).sha256;
  for (auto* values : {&probes[0].input_ids, &probes[0].attention_mask, &probes[0].position_ids}) {
    ++values->back();
    EXPECT_NE(prompt_set("model", probes, "", 7).sha256, before);
    --values->back();
  }
  EXPECT_EQ(prompt_set("model", probes, "", 7).sha256, before);
}

}  // namespace
}  // namespace tandem
