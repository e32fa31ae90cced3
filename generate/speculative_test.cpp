#include "generate/speculative.h"

#include <gmock/gmock.h>

#include "generate/testing.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;

/// Counts on from the last id, `at_once` tokens a call at most; one draft a call, which is right.
class Counting : public Engine {
 public:
  uint64_t at_once = 3;
  std::vector<std::pair<size_t, int32_t>> calls;  ///< tokens of the prompt, and max_new_tokens
  bool without_counts = false;

  const EngineInfo& info() const override { return info_; }
  Result<HostTensors> run(const std::string& entry, const HostTensors& inputs,
                          const std::vector<std::string>&) override {
    EXPECT_EQ(entry, "generate_greedy_speculative");
    EXPECT_EQ(inputs.size(), 3u);
    const auto most = numbers(inputs.at("max_new_tokens")), ids = numbers(inputs.at("input_ids"));
    calls.push_back({ids.size(), most[0]});
    std::vector<int32_t> tokens;
    while (tokens.size() < std::min<size_t>(at_once, most[0]))
      tokens.push_back(ids.back() + 1 + static_cast<int32_t>(tokens.size()));
    const auto length = static_cast<int32_t>(tokens.size());
    if (without_counts) return HostTensors{{"tokens", tensor(tokens, {1, tokens.size()})}};
    return HostTensors{{"tokens", tensor(tokens, {1, tokens.size()})},
                       {"lengths", tensor({length}, {1})},
                       {"drafted", tensor({1}, {1})},
                       {"accepted", tensor({1}, {1})}};
  }

 private:
  static std::vector<int32_t> numbers(const HostTensor& tensor) {
    std::vector<int32_t> values(tensor.data.size() / sizeof(int32_t));
    std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
    return values;
  }
  static HostTensor tensor(const std::vector<int32_t>& values, Shape shape) {
    HostTensor made{DType::i32, std::move(shape), std::vector<std::byte>(values.size() * sizeof(int32_t))};
    std::memcpy(made.data.data(), values.data(), made.data.size());
    return made;
  }
  EngineInfo info_;
};

TEST(Speculative, WhereTheGraphStopsEarlierThanWantedItIsAskedForTheRest) {
  Counting engine;
  Drafts drafts;
  const auto made = generate(speculative(engine, 5, {}, drafts), {7, 8}, {.max_new_tokens = 5});
  EXPECT_THAT(made.value().ids, ElementsAre(9, 10, 11, 12, 13));
  EXPECT_THAT(engine.calls, ElementsAre(std::pair(2, 5), std::pair(5, 2)));
  EXPECT_EQ(drafts.drafted, 2u);
  EXPECT_EQ(drafts.accepted, 2u);
}

TEST(Speculative, C2AnIdOfNoTokenIsRefused) {
  Counting engine;
  Drafts drafts;
  const std::vector<bool> below_10(10, true);
  const auto made = generate(speculative(engine, 5, below_10, drafts), {7, 8}, {.max_new_tokens = 5});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(
      made.error().message(),
      "speculative_c2: the model chose 10, which is the id of no token (without --speculative such ids are "
      "never chosen)");
}

TEST(Speculative, C1AnAnswerWithoutCountsIsNone) {
  Counting engine;
  engine.without_counts = true;
  Drafts drafts;
  const auto made = generate(speculative(engine, 5, {}, drafts), {7, 8}, {.max_new_tokens = 5});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().message(), "speculative_c1: the engine gave no output drafted of one row of int32");
}

}  // namespace
}  // namespace tandem
