#include "generate/run_stats.h"

#include <gmock/gmock.h>

#include "generate/testing.h"

namespace tandem {
namespace {

/// Counts each number of tokens that it has not seen as a compilation.
class Compiling : public ScriptedEngine {
 public:
  Compiling() : ScriptedEngine({}) {}
  std::vector<size_t> lengths;
  Result<HostTensors> run(const std::string& entry, const HostTensors& inputs,
                          const std::vector<std::string>& outputs) override {
    const size_t length = inputs.at("input_ids").shape[1];
    if (std::ranges::count(lengths, length) == 0) ++compiled_;
    lengths.push_back(length);
    return ScriptedEngine::run(entry, inputs, outputs);
  }
  Result<uint64_t> compilations() override { return compiled_; }

 private:
  uint64_t compiled_ = 0;
};

TEST(RunStats, AWarmUpIsAPromptOfEachLengthAndOneTokenMore) {
  Compiling engine;
  RunStats stats;
  ASSERT_TRUE(warm_up(engine, {3, 9}, stats).ok());
  EXPECT_THAT(engine.lengths, ::testing::ElementsAre(3, 4, 9, 10));
  EXPECT_EQ(stats.warm_up->compilations, 4u);
}

TEST(RunStats, EachAnswerCountsItsOwnCompilationsAndTokens) {
  Compiling engine;
  RunStats stats;
  ASSERT_TRUE(warm_up(engine, {3}, stats).ok());
  const auto answer_to = [&](std::vector<int32_t> ids) {
    const uint64_t tokens = ids.size();
    ASSERT_TRUE(
        generate(begin_answer(stats, greedy(engine), tokens), std::move(ids), {.max_new_tokens = 3}).ok());
    ASSERT_TRUE(end_answer(stats, engine).ok());
  };
  answer_to({1, 2, 3});  // of 3, 4 and 5 tokens
  EXPECT_EQ(stats.compilations, 1u);
  EXPECT_EQ(stats.token_s.size(), 3u);
  answer_to({1, 2, 3});
  EXPECT_EQ(stats.compilations, 0u);
  EXPECT_EQ(stats.token_s.size(), 3u);
  EXPECT_EQ(stats.warm_up->compilations, 2u);
}

TEST(RunStats, PerTokenIsTheMedianOfAllButTheFirst) {
  EXPECT_EQ(per_token_s({.token_s = {9}}), std::nullopt);
  EXPECT_EQ(per_token_s({.token_s = {9, 2}}), 2);
  EXPECT_EQ(per_token_s({.token_s = {9, 2, 50, 4}}), 4);
  EXPECT_EQ(per_token_s({.token_s = {9, 2, 50, 4, 1}}), 3);
}

TEST(RunStats, InWordsAndAsJson) {
  const RunStats none{.load_s = 1.25};
  EXPECT_EQ(to_json(none).dump(),
            R"({"load_s":1.25,"first_token_s":null,"per_token_s":null,"compilations":{"answer":0}})");
  EXPECT_EQ(to_text(none), "load          1.25 s\ncompilations  0\n");
  const RunStats all{.load_s = 1.25,
                     .warm_up = WarmUp{3.5, 4},
                     .prompt_tokens = 12,
                     .token_s = {0.5, 0.0125},
                     .compilations = 1};
  EXPECT_EQ(to_json(all).dump(), R"({"load_s":1.25,"first_token_s":0.5,"per_token_s":0.0125,)"
                                 R"("compilations":{"answer":1,"warm_up":4},"warm_up_s":3.5})");
  EXPECT_EQ(to_text(all),
            "load          1.25 s\n"
            "warm-up       3.50 s, 4 compilations\n"
            "first token   500.0 ms, after 12 tokens\n"
            "per token     12.5 ms, 80.0 a second (median of 1)\n"
            "compilations  1\n");
}

}  // namespace
}  // namespace tandem
