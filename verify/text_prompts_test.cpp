#include "verify/text_prompts.h"

#include <gmock/gmock.h>

#include "text/testing.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

SideText side(const std::string& tokenizer, const std::string& config = "{}") {
  OpenedModel opened;
  opened.path = "/model";
  if (!tokenizer.empty()) opened.side_files["tokenizer.json"] = tokenizer;
  opened.side_files["tokenizer_config.json"] = config;
  return text_of(opened);
}

/// Bytes are ids; 256 is the start token.
std::string bytes_with_start() {
  return text::tokenizer_json({.model = text::byte_bpe({}),
                               .pre_tokenizer = text::kByteLevel,
                               .decoder = text::kByteLevel,
                               .added = text::added_token(256, "<s>")});
}

constexpr std::string_view kTexts[] = {"ab", "c"};

TEST(TextPrompts, EachTextBecomesARow) {
  const TextIds found = encode_texts(side(bytes_with_start()), kTexts, 257);
  EXPECT_THAT(found.rows, ElementsAre(ElementsAre('a', 'b'), ElementsAre('c')));
  EXPECT_THAT(found.skipped, IsEmpty());
}

TEST(TextPrompts, WithoutATokenizerTheReasonIsSaid) {
  const TextIds found = encode_texts(side(""), kTexts, 257);
  EXPECT_THAT(found.rows, IsEmpty());
  EXPECT_EQ(found.skipped, "/model has no tokenizer.json");
  EXPECT_THAT(encode_texts(side("{"), kTexts, 257).skipped, HasSubstr("tokenizer.json of /model: "));
}

TEST(TextPrompts, IdsBeyondTheVocabularyAreNotRun) {
  const TextIds found = encode_texts(side(bytes_with_start()), kTexts, 98);
  EXPECT_THAT(found.rows, IsEmpty());
  EXPECT_EQ(found.skipped, "the tokenizer makes id 98 of a text, and vocab_size is 98");
}

TEST(TextPrompts, ATextWithoutIdsIsNotRun) {
  constexpr std::string_view kBlank[] = {""};
  EXPECT_EQ(encode_texts(side(bytes_with_start()), kBlank, 257).skipped,
            "the tokenizer makes no ids of a text");
}

TEST(TextPrompts, T13OneSideWithAStartTokenIsFoundBeforeAnyLogits) {
  const std::string with = R"({"bos_token":"<s>","add_bos_token":true})", without = R"({"bos_token":"<s>"})";
  const SideText left = side(bytes_with_start(), with), right = side(bytes_with_start(), without);
  EXPECT_TRUE(same_ids(left, left).ok());
  EXPECT_TRUE(same_ids(right, right).ok());
  const Status parted = same_ids(left, right);
  ASSERT_FALSE(parted.ok());
  EXPECT_EQ(parted.error().kind, ErrorKind::not_equal);
  EXPECT_EQ(parted.error().rule, "verify_c12");
  EXPECT_EQ(parted.error().text,
            R"(the sides' tokenizers read the text "The morning train was late, so" as other ids: )"
            R"(position 0 is 256 "<s>" on the left and 84 "T" on the right)");
}

/// An hf engine whose tokenizer makes other ids from some place on.
class FakeLibrary : public Engine {
 public:
  explicit FakeLibrary(size_t wrong_at) : wrong_at_(wrong_at) {}
  const EngineInfo& info() const override { return info_; }
  Result<HostTensors> run(const std::string&, const HostTensors&, const std::vector<std::string>&) override {
    return HostTensors{};
  }
  Result<std::vector<int32_t>> encode(std::string_view text) override {
    std::vector<int32_t> ids(text.begin(), text.end());
    if (wrong_at_ < ids.size()) ids[wrong_at_] = 33;
    return ids;
  }

 private:
  EngineInfo info_;
  size_t wrong_at_;
};

TEST(TextPrompts, TheLibraryMustReadTheTextAlike) {
  const text::ModelText model = *side(bytes_with_start()).model;
  FakeLibrary same(size_t(-1)), other(4);
  EXPECT_TRUE(same_ids_as_library(model.tokenizer, same).ok());
  const Status parted = same_ids_as_library(model.tokenizer, other);
  ASSERT_FALSE(parted.ok());
  EXPECT_EQ(parted.error().rule, "verify_c13");
  EXPECT_THAT(parted.error().text, HasSubstr(R"(position 4 is 104 "h" on the left and 33 "!" on the right)"));
}

TEST(TextPrompts, ASideWithoutATokenizerIsNoDifference) {
  EXPECT_TRUE(same_ids(side(""), side(bytes_with_start())).ok());
}

TEST(TextPrompts, TheTextsAreThere) {
  EXPECT_GT(kLongText.size(), 2500u);
  EXPECT_GT(kShortTexts.size(), 20u);
}

}  // namespace
}  // namespace tandem
