#include "verify/text_prompts.h"

#include <gmock/gmock.h>

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A tokenizer that makes the ids 1 .. n of a text of n words, or fails.
class FakeTokenizer : public Engine {
 public:
  std::optional<Error> error;
  const EngineInfo& info() const override { return info_; }
  Result<HostTensors> run(const std::string&, const HostTensors&, const std::vector<std::string>&) override {
    return HostTensors{};
  }
  Result<std::vector<int32_t>> encode(std::string_view text) override {
    if (error) return *error;
    std::vector<int32_t> ids;
    for (const char c : text)
      if (c == ' ') ids.push_back(static_cast<int32_t>(ids.size() + 1));
    return ids;
  }

 private:
  EngineInfo info_;
};

constexpr std::string_view kTexts[] = {"a b c", "d e"};

TEST(TextPrompts, EachTextBecomesARow) {
  FakeTokenizer tokenizer;
  const TextIds found = encode_texts(&tokenizer, kTexts, 10).value();
  EXPECT_THAT(found.rows, ElementsAre(ElementsAre(1, 2), ElementsAre(1)));
  EXPECT_THAT(found.skipped, IsEmpty());
}

TEST(TextPrompts, WithoutATokenizerTheReasonIsSaid) {
  EXPECT_THAT(encode_texts(nullptr, kTexts, 10).value().skipped, HasSubstr("no hf engine takes part"));
  FakeTokenizer tokenizer;
  tokenizer.error = missing("hf_c5", "/model has no tokenizer.json");
  const TextIds found = encode_texts(&tokenizer, kTexts, 10).value();
  EXPECT_THAT(found.rows, IsEmpty());
  EXPECT_EQ(found.skipped, "/model has no tokenizer.json");
}

TEST(TextPrompts, IdsBeyondTheVocabularyAreNotRun) {
  FakeTokenizer tokenizer;
  const TextIds found = encode_texts(&tokenizer, kTexts, 2).value();
  EXPECT_THAT(found.rows, IsEmpty());
  EXPECT_EQ(found.skipped, "the tokenizer makes id 2 of a text, and vocab_size is 2");
}

TEST(TextPrompts, ATextWithoutIdsIsNotRun) {
  FakeTokenizer tokenizer;
  constexpr std::string_view kBlank[] = {"word"};
  EXPECT_EQ(encode_texts(&tokenizer, kBlank, 10).value().skipped, "the tokenizer makes no ids of a text");
}

TEST(TextPrompts, AWorkerThatIsGoneIsAnError) {
  FakeTokenizer tokenizer;
  tokenizer.error = unavailable("engine_c2", "the worker died");
  EXPECT_EQ(encode_texts(&tokenizer, kTexts, 10).error().rule, "engine_c2");
}

TEST(TextPrompts, TheTextsAreThere) {
  EXPECT_GT(kLongText.size(), 2500u);
  EXPECT_GT(kShortTexts.size(), 20u);
}

}  // namespace
}  // namespace tandem
